"""Which faults a job's drivers and their service meet: drawn from a seed, the same for the same seed."""

from __future__ import annotations

import os
import random
import secrets
from dataclasses import dataclass

LEADER, STANDBY, SERVER = "leader", "standby", "server"

ON_DRIVERS = (
    "kill python",
    "kill jvm",
    "kill both",
    "freeze python",
    "freeze jvm",
    "freeze both",
    "terminate python",
)
RESTART = "restart"
FULL = 60
_OUTAGE_SECONDS = (0.2, 12.0)
_BRIEF_SECONDS = (0.5, 3.0)
_MOMENT_SECONDS = 2.5
_CUT_SEED = 1


@dataclass(frozen=True)
class Fault:
    """What is done to whom. ``seconds``: how long the server is away, or a frozen one stands still (0: until another
    driver leads, and longer than a session lasts)."""

    how: str
    whom: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.how} {self.whom}" + (f" {self.seconds:.1f} s" if self.seconds else "")


@dataclass(frozen=True)
class Blow:
    """Faults that come at once, ``after`` seconds from new input on."""

    faults: tuple[Fault, ...]
    after: float


@dataclass(frozen=True)
class Round:
    """Blows in a row, with so many standbys."""

    standbys: int
    blows: tuple[Blow, ...]


def wanted() -> int:
    """How many rounds to run over all queries, MILEPOST_SPARK_ROUNDS: a number, or ``full`` for `FULL`; 0 for the
    cut."""
    asked = os.environ.get("MILEPOST_SPARK_ROUNDS", "0")
    return FULL if asked == "full" else int(asked)


def seed() -> int:
    """MILEPOST_SPARK_SEED, or another one each time; always the same for the cut."""
    given = os.environ.get("MILEPOST_SPARK_SEED", "")
    if given:
        return int(given)
    return secrets.randbits(32) if wanted() else _CUT_SEED


CUT = (Round(1, (Blow((Fault("freeze jvm", LEADER), Fault(RESTART, SERVER, 9.0)), 1.0),)),)
"""What is run when nobody asks for more: a JVM that stands still, which nothing but the driver itself notices, and the
service away for longer than a session lasts, with one standby."""


def rounds(count: int, source: random.Random) -> list[Round]:
    """So many rounds; on average each has three faults."""
    return [_round(source) for _ in range(count)]


def _round(source: random.Random) -> Round:
    standbys = source.choice((1, 2))
    return Round(standbys, tuple(_blow(standbys, source) for _ in range(2)))


def _blow(standbys: int, source: random.Random) -> Blow:
    """One fault, or two or three at once; somebody who can go on is always left."""
    targets = [LEADER, SERVER, *([STANDBY] if standbys > 1 else [])]
    several = source.random() < 0.45
    if several:
        chosen = source.sample(targets, source.choice((2, len(targets))))
    else:
        chosen = source.choices(targets, [6, 2, *([1] if standbys > 1 else [])])
    return Blow(tuple(_fault(whom, source) for whom in chosen), source.uniform(0.0, _MOMENT_SECONDS))


def _fault(whom: str, source: random.Random) -> Fault:
    if whom == SERVER:
        return Fault(RESTART, SERVER, source.uniform(*_OUTAGE_SECONDS))
    how = source.choice(ON_DRIVERS)
    brief = how.startswith("freeze") and source.random() < 0.3
    return Fault(how, whom, source.uniform(*_BRIEF_SECONDS) if brief else 0.0)
