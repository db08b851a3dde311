"""A process beside one process of pytest that kills it when a test is over its time, or anything takes too much memory.

It is another process, since a test can spin, swallow whatever is raised in it, stand in C code that keeps the
interpreter's lock, or be stopped: then nothing within its own process ends it, and xdist would wait for it for ever.

Told on standard input, a line each: ``<seconds> <what>``, which begins something that has so many seconds, and an empty
line when that is over. Ends with its standard input. Started as a script: python warden.py PID BYTES
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

LOOK_SECONDS = 0.5
MEMORY_SECONDS = 2.0
STACKS_SECONDS = 1.0
"""How long the process has to print where it stands (see time_limits.py) before it is killed."""

PAGE = os.sysconf("SC_PAGE_SIZE")


class Warden:
    """Watches over the process ``pid``; neither it nor one below it may take more than ``bytes_each``."""

    def __init__(self, pid: int, bytes_each: int) -> None:
        self._pid = pid
        self._bytes_each = bytes_each
        self._what = "nothing in particular"
        self._end: float | None = None
        self._looked = 0.0

    def hear(self, line: str) -> None:
        """One line of its input."""
        seconds, _, what = line.partition(" ")
        self._what = what or f"what follows {self._what}"
        self._end = time.monotonic() + float(seconds) if seconds else None

    def look(self) -> str | None:
        """What is not to go on, in words."""
        now = time.monotonic()
        if self._end is not None and now > self._end:
            return f"{self._what} is over its time limit"
        if now - self._looked < MEMORY_SECONDS:
            return None
        self._looked = now
        for pid, (_, size) in _below(self._pid).items():
            if size > self._bytes_each:
                return f"{self._what}: process {pid} takes {size >> 20} MiB, more than {self._bytes_each >> 20} MiB"
        return None

    def end(self, why: str) -> None:
        """Say why, let the process print where it stands, and kill it with all that it has begun."""
        print(f"\n++++ {why}. Where it stands, and then its process is killed:", file=sys.stderr, flush=True)
        _send(self._pid, signal.SIGUSR2)
        time.sleep(STACKS_SECONDS)
        begun = [pid for pid in _below(self._pid) if pid not in (self._pid, os.getpid())]
        for pid in (self._pid, *begun):
            _send(pid, signal.SIGKILL)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _below(pid: int) -> dict[int, tuple[int, int]]:
    """A process and those that it began, at any remove: the parent of each, and the bytes that are in memory.

    Empty where the system does not tell.
    """
    seen = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = place.read_text(errors="replace").rpartition(")")[2].split()
            seen[int(place.parent.name)] = int(fields[1]), int(fields[21]) * PAGE
    found = {pid: seen[pid]} if pid in seen else {}
    begun = [pid]
    while begun:
        begun = [other for other, (parent, _) in seen.items() if parent in begun and other not in found]
        found.update((other, seen[other]) for other in begun)
    return found


def main(pid: int, bytes_each: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the process that is watched goes on for a moment
    warden, heard = Warden(pid, bytes_each), b""
    while os.getppid() == pid:
        if select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
            piece = os.read(sys.stdin.fileno(), 65536)
            if not piece:
                return
            *lines, heard = (heard + piece).split(b"\n")
            for line in lines:
                warden.hear(line.decode(errors="replace"))
        if (why := warden.look()) is not None:
            warden.end(why)
            return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
