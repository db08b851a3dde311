"""Runs a command as a very busy machine would: ``python -m tests.support.stutter make first``.

By turns, four in ten of the command's processes, drawn anew each time, stand still for half a second to one and a half.
A test that counts on a fraction of a second of real time fails under this sooner or later. A process that a test has
stopped is left alone; but one that a test stops while it stands still here goes on too early, so failures of tests
that stop processes prove nothing.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

from testbed.process import stands_still, with_descendants

SHARE = 0.4
SECONDS = (0.5, 1.5)


def main(command: list[str]) -> int:
    """Run ``command`` and return the status that it ends with."""
    with subprocess.Popen(command) as running:
        while running.poll() is None:
            stopped = stop_some(running.pid)
            try:
                pause()
            finally:
                tell(stopped, signal.SIGCONT)
            pause()
        return running.returncode


def stop_some(parent: int) -> list[int]:
    """Stop some of the descendants of ``parent`` and return their ids."""
    _, *descendants = with_descendants(parent)
    chosen = [process for process in descendants if random.random() < SHARE and not stands_still(process)]
    tell(chosen, signal.SIGSTOP)
    return chosen


def tell(processes: list[int], number: signal.Signals) -> None:
    """Send the signal to those that are still there."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def pause() -> None:
    """Let a turn pass."""
    time.sleep(random.uniform(*SECONDS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
