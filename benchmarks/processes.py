"""What the kernel tells of this process and all processes below it."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")
_USER, _SYSTEM, _STARTED = 11, 12, 19
_TICKS = os.sysconf("SC_CLK_TCK")


def processes_below() -> list[int]:
    """Return the numbers of all processes below this one, and its own."""
    parents = {int(path.name): _stat(int(path.name)) for path in _PROC.iterdir() if path.name.isdigit()}
    found = []
    for number in parents:
        above = number
        while above in parents and above != os.getpid():
            above = parents[above][1]
        if above == os.getpid():
            found.append(number)
    return found


class ProcessorTime:
    """How long this process and those below it were on a processor, whatever else the machine had to do.

    A process that has ended counts with what it had at the last look. PySpark ends workers that have nothing to do, and
    the kernel does not add all of these to the process above.
    """

    def __init__(self) -> None:
        self._ticks: dict[tuple[int, int], int] = {}

    def seconds(self) -> float:
        """Look, and return the seconds so far, which never become less."""
        for number in processes_below():
            stat = _stat(number)
            if stat[_STARTED]:
                self._ticks[number, stat[_STARTED]] = stat[_USER] + stat[_SYSTEM]
        return sum(self._ticks.values()) / _TICKS


def kibibytes(number: int, file: str, field: str) -> int:
    """Return a figure of a process's memory from ``status`` or ``smaps_rollup``; 0 once it has ended."""
    lines = [line for line in content(number, file).decode().splitlines() if line.startswith(f"{field}:")]
    return int(lines[0].split()[1]) if lines else 0


def content(number: int, file: str) -> bytes:
    """Return a file of a process; nothing once it has ended."""
    try:
        return (_PROC / str(number) / file).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _stat(number: int) -> list[int]:
    """Return the numbers behind the name of a process and its state, which is a 0 here; zeros once it has ended."""
    text = content(number, "stat").decode().rpartition(")")[2].split()
    return [0, *map(int, text[1:])] if text else [0] * 50
