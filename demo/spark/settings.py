"""What drivers and the reader are told, as one JSON argument on their command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

BEFORE_PUBLISHING = "before publishing"
AFTER_PUBLISHING = "after publishing"


@dataclass(frozen=True)
class Halt:
    """Where a driver is to stand still: in ``batch``, at ``place`` (`BEFORE_PUBLISHING` or `AFTER_PUBLISHING`)."""

    place: str
    batch: int

    @property
    def name(self) -> str:
        """Of the file that says that a driver stands here."""
        return f"halted-{self.place.replace(' ', '-')}-{self.batch}"


@dataclass(frozen=True)
class DriverSettings:
    """One driver's part in a run. Paths are absolute.

    It begins once the file ``begin`` is there; before that it warms up. ``services``, ``job`` and ``ttl`` (seconds) are
    for Milepost, ``checkpoints`` is for plain Spark.
    """

    name: str
    input: str
    output: str
    events: str
    begin: str
    java_options: str
    halts: Sequence[Halt] = ()
    services: Sequence[str] = ()
    job: str = ""
    ttl: float = 0.0
    checkpoints: str = ""

    def to_json(self) -> str:
        """The argument for the command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DriverSettings:
        """The settings in that argument."""
        raw = json.loads(text)
        return cls(**{**raw, "halts": tuple(Halt(**halt) for halt in raw["halts"])})

    @classmethod
    def from_command_line(cls) -> DriverSettings:
        """The settings of this process."""
        return cls.from_json(sys.argv[1])


@dataclass(frozen=True)
class ReaderSettings:
    """Where everything lies. Reading begins once the file ``begin`` is there; ``result`` takes the comparisons.

    ``plain_output`` is None where no plain Spark ran beside Milepost.
    """

    input: str
    services: Sequence[str]
    job: str
    plain_output: str | None
    java_options: str
    begin: str
    result: str

    def to_json(self) -> str:
        """The argument for the command line."""
        return json.dumps(asdict(self))
