"""Which drivers are interrupted where, how, and over which query."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace

from tests.spark.hooks import POINTS

CUT = 5
"""Rounds that are run when nobody asks for more."""

HOWS = ("kill", "freeze", "kill python")
"""SIGKILL for Python and JVM; SIGSTOP until a successor has published, then SIGCONT; SIGKILL for Python alone."""

ANY_MOMENT = "any moment"
_MOMENT_SECONDS = 4.0
_SEED = 20_260_101


@dataclass(frozen=True)
class Round:
    """One interruption: at the ``nth`` passing of ``point``, or ``after`` seconds of work at any moment.

    ``blind``: the frozen driver does not see that its time is over, so that the service alone keeps it out.
    """

    how: str
    point: str
    nth: int = 1
    after: float = 0.0
    blind: bool = False


@dataclass(frozen=True)
class Chain:
    """Drivers of one job in a row, each interrupted but the last. ``inline_bytes`` and ``max_layers`` as in `Setup`."""

    kind: str
    provider: str
    rounds: tuple[Round, ...]
    inline_bytes: int = 8192
    max_layers: int = 64

    def __str__(self) -> str:
        return f"{self.kind}-{self.provider}"


_FEW = (("stateless", "hdfs", 8192, 64), ("aggregation", "hdfs", 0, 3), ("deduplication", "rocksdb", 0, 3))
_MANY = (
    *_FEW,
    ("windows", "hdfs", 8192, 64),
    ("aggregation", "rocksdb-changelog", 0, 3),
    ("deduplication", "rocksdb-v2", 0, 64),
)


def wanted() -> int:
    """How many rounds to run: MILEPOST_SPARK_ROUNDS, or the cut."""
    return int(os.environ.get("MILEPOST_SPARK_ROUNDS", CUT))


def chains(rounds: int) -> list[Chain]:
    """``rounds`` rounds over all points, ways and jobs, the same for the same number."""
    source = random.Random(_SEED)
    places = [*POINTS, ANY_MOMENT]
    order = list(range(rounds)) if rounds > len(places) else _spread(rounds, len(places))
    jobs = _FEW if rounds <= CUT else _MANY
    hows = [HOWS[(n + n // len(jobs)) % len(HOWS)] for n in range(rounds)]  # so that each job meets each of them
    made = [_round(places[i % len(places)], how, source) for i, how in zip(order, hows, strict=True)]
    return [
        Chain(kind, provider, tuple(_passed(r, inline_bytes) for r in made[n :: len(jobs)]), inline_bytes, max_layers)
        for n, (kind, provider, inline_bytes, max_layers) in enumerate(jobs)
        if made[n :: len(jobs)]
    ]


def _passed(this: Round, inline_bytes: int) -> Round:
    """A job whose little state travels inside the record stores no layer at whose storing it could be interrupted."""
    return replace(this, point=this.point.replace("layer", "entry")) if inline_bytes else this


def _spread(rounds: int, places: int) -> list[int]:
    """Few rounds, spread evenly from the last place (any moment) backwards."""
    return [places - 1 - n * places // rounds for n in range(rounds)]


def _round(point: str, how: str, source: random.Random) -> Round:
    blind = how == "freeze" and source.random() < 0.7
    if point == ANY_MOMENT:
        return Round(how, point, after=source.uniform(0.0, _MOMENT_SECONDS), blind=blind)
    return Round(how, point, nth=source.choice((1, 2)), blind=blind)
