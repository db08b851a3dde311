"""Writes to a service as a program of its own, which runs in a Pod where only Pods can reach the service.

    [MILEPOST_TOKEN=TOKEN] python -m testbed.load URL STORE [--writers 4] [--ttl 60]

It prints a line of JSON each half second: ``at``, in seconds of the monotonic clock, which the machine's containers
share, and ``written``, how many writes were acknowledged so far. After SIGTERM it prints the `Outcome`, and ends. What
the SDK logs of outages is on standard error.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from testbed.writers import Account, Writers

_EVERY_SECONDS = 0.5
_LONGEST = 20


@dataclass(frozen=True)
class Gap:
    """A wait of a ``writer``: the service acknowledged none of its writes for ``seconds``, from the monotonic time
    ``since`` on.
    """

    writer: str
    since: float
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What became of all writes.

    ``written`` were acknowledged; ``gaps`` has the longest waits of a writer between two of its own. ``errors`` are
    those that the SDK raised. ``lost`` says what was acknowledged and is not there.
    """

    written: int
    gaps: Sequence[Gap]
    errors: Sequence[str]
    lost: Sequence[str]

    @classmethod
    def parse(cls, line: str) -> Outcome:
        """Read the outcome from the line that the program prints."""
        raw = json.loads(line)
        return cls(**{**raw, "gaps": [Gap(**gap) for gap in raw["gaps"]]})

    def gap_after(self, moment: float) -> float:
        """Return the longest wait, in seconds, of a writer for an acknowledged write after ``moment``."""
        ends = ((max(gap.since, moment), gap.since + gap.seconds) for gap in self.gaps)
        return max((end - begin for begin, end in ends if end > begin), default=0.0)


def gaps(accounts: Sequence[Account], begun: float, told: float) -> list[Gap]:
    """Return the longest times between two acknowledgements of the same writer, the longest first; also those from when
    the writers have ``begun``, and until they were ``told`` to end.
    """
    found = (
        Gap(account.replaced, before, after - before)
        for account in accounts
        for before, after in pairwise([begun, *account.acknowledged, max([told, *account.acknowledged[-1:]])])
    )
    return sorted(found, key=lambda gap: -gap.seconds)[:_LONGEST]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return the exit status, which is 1 if anything was lost or the SDK raised an error."""
    flags = argparse.ArgumentParser(prog="python -m testbed.load", description=__doc__)
    flags.add_argument("url")
    flags.add_argument("store")
    flags.add_argument("--writers", type=int, default=4)
    flags.add_argument("--ttl", type=float, default=60.0, help="seconds; longer than any fail-over of the service")
    given = flags.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(threadName)s %(name)s %(message)s", level=logging.WARNING)
    over = threading.Event()
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, lambda _number, _frame: over.set())
    with Writers([given.url], given.store, given.writers, given.ttl, os.environ.get("MILEPOST_TOKEN")) as writers:
        while not over.wait(_EVERY_SECONDS):
            written = sum(len(account.acknowledged) for account in writers.accounts)
            print(json.dumps({"at": time.monotonic(), "written": written}), flush=True)
        told = time.monotonic()
    written, errors = len(writers.acknowledged()), [repr(error) for error in writers.errors()]
    outcome = Outcome(written, gaps(writers.accounts, begun, told), errors, writers.lost())
    print(json.dumps(asdict(outcome)), flush=True)
    return 1 if outcome.errors or outcome.lost else 0


if __name__ == "__main__":
    sys.exit(main())
