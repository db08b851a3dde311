"""Finds and kills the processes in a network namespace.

All processes that a node starts are in its network namespace or in that of one of its Pods, and no others are. So a
process is known to be a node's by the namespace that it is in, and never by a name or an id that was noted.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path

from testbed.process import ProcessFailed

_DEADLINE_SECONDS = 30.0

Space = tuple[int, int]
"""A namespace, named by the device and the inode of the file that stands for it."""


def space(file: Path) -> Space | None:
    """Return the namespace that a file stands for; None if the file is gone, or belongs to a process that has ended."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def processes_in(spaces: Collection[Space]) -> list[int]:
    """Return the ids of the processes whose network namespace is one of these."""
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and _lives(each.name, spaces)]


def kill_all(networks: Callable[[], Collection[Path]]) -> None:
    """Kill all processes in the network namespaces ``networks()``, again and again until none is left.

    Raises `ProcessFailed` when something cannot be killed.
    """
    end = time.monotonic() + _DEADLINE_SECONDS
    while left := processes_in(spaces := _spaces(networks())):
        for pid in left:
            _kill(pid, spaces)
        if time.monotonic() > end:
            raise ProcessFailed(f"processes outlive SIGKILL: {left}")
        time.sleep(0.05)


def _spaces(networks: Collection[Path]) -> set[Space]:
    return {found for file in networks if (found := space(file)) is not None}


def _lives(pid: int | str, spaces: Collection[Space]) -> bool:
    return space(Path(f"/proc/{pid}/ns/net")) in spaces


def _kill(pid: int, spaces: Collection[Space]) -> None:
    """Kill a process, unless it has ended meanwhile and its id went to a process in another namespace."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _lives(pid, spaces):
            signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(process)
