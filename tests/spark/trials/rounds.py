"""Which drivers are interrupted where, how, and over which query."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace
from itertools import count

from tests.spark.under_test.hooks import BATCH, ONCE, POINTS, TAKING_OVER

HOWS = ("kill", "freeze", "kill python")
"""SIGKILL for Python and JVM; SIGSTOP until a successor has taken over, then SIGCONT; SIGKILL for Python alone."""

ANY_MOMENT = "any moment"
_SINCE = (TAKING_OVER[0], BATCH[0], BATCH[0])
"""From when on the moments count: a driver takes some seconds on its way in, and most of them belong to its work."""
_MOMENT_SECONDS = 4.0
_SEED = 20_260_101


@dataclass(frozen=True)
class Round:
    """One interruption: at the ``nth`` passing of ``point``, or at any moment, ``after`` seconds from ``since`` on.

    ``blind``: the frozen driver does not see that its time is over, so that the service alone keeps it out.
    """

    how: str
    point: str
    nth: int = 1
    since: str = ""
    after: float = 0.0
    blind: bool = False


@dataclass(frozen=True)
class Chain:
    """Drivers of one job in a row, each interrupted but the last."""

    kind: str
    provider: str
    rounds: tuple[Round, ...] = ()
    turn: int = 0

    def __str__(self) -> str:
        return f"{self.kind}-{self.provider}" + (f"-{self.turn}" if self.turn else "")


_STATELESS = Chain("stateless", "hdfs")
_AGGREGATION = Chain("aggregation", "hdfs")
_DEDUPLICATION = Chain("deduplication", "rocksdb")
_JOBS = (
    _STATELESS,
    _AGGREGATION,
    _DEDUPLICATION,
    Chain("windows", "hdfs"),
    Chain("aggregation", "rocksdb-changelog"),
    Chain("transform", "rocksdb-v2"),
)

CUT = (
    replace(
        _AGGREGATION,
        rounds=(Round("kill", "after publication", nth=2), Round("freeze", "before publication", blind=True)),
    ),
    replace(_DEDUPLICATION, rounds=(Round("kill python", "before writing"),)),
)
"""What is run when nobody asks for more; a job without state, at any moment, is in the cut of the trials."""

_TIMES = 2
FULL = 3 * _TIMES * len(POINTS)
"""So many rounds meet every point twice with SIGKILL and with SIGSTOP, and half as many more are at any moment."""


def wanted() -> int:
    """How many rounds to run, MILEPOST_SPARK_ROUNDS: a number, or ``full`` for `FULL`; 0 for the cut."""
    asked = os.environ.get("MILEPOST_SPARK_ROUNDS", "0")
    return FULL if asked == "full" else int(asked)


def chains(rounds: int) -> list[Chain]:
    """``rounds`` rounds, the same for the same number: of `FULL` ones the first, or those and more; with 0 the cut."""
    if not rounds:
        return list(CUT)
    made: list[Chain] = []
    for turn in count():
        for chain in _full(turn):
            taken = chain.rounds[:rounds]
            rounds -= len(taken)
            made.append(replace(chain, rounds=taken))
            if not rounds:
                return made
    raise AssertionError("there are always more")


def _full(turn: int) -> list[Chain]:
    """`FULL` rounds: a third of them at any moment, the others at each point in both ways."""
    source = random.Random(_SEED + turn)
    dealt: list[list[Round]] = [[] for _ in _JOBS]
    for number in range(FULL // 3):
        # One job after the other, and one back with each pass, so that each job meets different ways.
        job = (number - number // len(_JOBS)) % len(_JOBS)
        dealt[job].append(_round(ANY_MOMENT, HOWS[number % len(HOWS)], source))
    places = [(point, how) for how in ("kill", "freeze") for point in POINTS] * _TIMES
    source.shuffle(places)
    for point, how in sorted(places, key=lambda place: place[0] not in BATCH):
        _shortest(dealt, point).append(_round(point, how, source))
    return [replace(job, turn=turn, rounds=_in_order(found, source)) for job, found in zip(_JOBS, dealt, strict=True)]


def _shortest(dealt: list[list[Round]], point: str) -> list[Round]:
    """The shortest list of rounds; one that can begin a chain goes where none does."""
    fitting = [
        (point in BATCH and any(known.point in BATCH for known in rounds), len(rounds), number)
        for number, rounds in enumerate(dealt)
    ]
    return dealt[min(fitting)[2]]


def _in_order(rounds: list[Round], source: random.Random) -> tuple[Round, ...]:
    """By chance, but for the first, which leaves something to go on from."""
    source.shuffle(rounds)
    first = next(found for found in rounds if found.point in BATCH)
    rounds.sort(key=lambda found: found is not first)
    return tuple(rounds)


def _round(point: str, how: str, source: random.Random) -> Round:
    blind = how == "freeze" and source.random() < 0.7
    if point == ANY_MOMENT:
        since, after = source.choice(_SINCE), source.uniform(0.0, _MOMENT_SECONDS)
        return Round(how, point, since=since, after=after, blind=blind)
    return Round(how, point, nth=1 if point in ONCE else source.choice((1, 2)), blind=blind)
