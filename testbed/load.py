"""A load of writes as a program of its own, for where nothing else of this machine reaches the service: in a Pod.

    [MILEPOST_TOKEN=TOKEN] python -m testbed.load URL STORE [--writers 4] [--ttl 60]

Prints a line of JSON each half second: when (in seconds of the monotonic clock, which the machine's containers share),
and how many writes were acknowledged. After SIGTERM it prints what became of them, as `Outcome` has it, and ends.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from testbed.writers import Writers

_EVERY_SECONDS = 0.5
_LONGEST = 20


@dataclass(frozen=True)
class Gap:
    """Nobody's write was acknowledged for so many ``seconds``, ``since`` a moment."""

    since: float
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """``gaps``: the longest. ``errors``: what the SDK let through. ``lost``: what was acknowledged and is not there."""

    written: int
    gaps: Sequence[Gap]
    errors: Sequence[str]
    lost: Sequence[str]

    @classmethod
    def parse(cls, line: str) -> Outcome:
        """The last line that the program prints."""
        raw = json.loads(line)
        return cls(raw["written"], [Gap(**gap) for gap in raw["gaps"]], raw["errors"], raw["lost"])

    def gap_after(self, moment: float) -> float:
        """The longest wait, in seconds, for an acknowledged write since ``moment``."""
        ends = ((max(gap.since, moment), gap.since + gap.seconds) for gap in self.gaps)
        return max((end - begin for begin, end in ends if end > begin), default=0.0)


def gaps(acknowledged: Sequence[float]) -> list[Gap]:
    """The longest times between two acknowledgements, the longest first."""
    found = (Gap(before, after - before) for before, after in pairwise(acknowledged))
    return sorted(found, key=lambda gap: -gap.seconds)[:_LONGEST]


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; the exit status: 1 if anything was lost or came through."""
    flags = argparse.ArgumentParser(prog="python -m testbed.load", description=__doc__)
    flags.add_argument("url")
    flags.add_argument("store")
    flags.add_argument("--writers", type=int, default=4)
    flags.add_argument("--ttl", type=float, default=60.0, help="seconds; longer than any fail-over of the service")
    given = flags.parse_args(arguments)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: over.set())
    with Writers([given.url], given.store, given.writers, given.ttl, os.environ.get("MILEPOST_TOKEN")) as writers:
        while not over.wait(_EVERY_SECONDS):
            written = sum(len(account.acknowledged) for account in writers.accounts)
            print(json.dumps({"at": time.monotonic(), "written": written}), flush=True)
    acknowledged = writers.acknowledged()
    outcome = Outcome(
        len(acknowledged), gaps(acknowledged), [repr(error) for error in writers.errors()], writers.lost()
    )
    print(json.dumps(asdict(outcome)), flush=True)
    return 1 if outcome.errors or outcome.lost else 0


if __name__ == "__main__":
    sys.exit(main())
