"""Who lives in a network of the kernel, and how they are killed.

Whatever a node starts lives in its network or in that of one of its Pods, and nobody else does. So a process is known
to be a node's by the namespace that it is in, and never by a name or a number that someone noted.
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
"""A namespace: the device and the inode of the file that stands for it."""


def space(file: Path) -> Space | None:
    """Which one a file stands for; None where it is gone, or belongs to a process that has ended."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def processes_in(spaces: Collection[Space]) -> list[int]:
    """The processes whose network is one of these."""
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and _lives(each.name, spaces)]


def kill_all(networks: Callable[[], Collection[Path]]) -> None:
    """Kill whoever lives in ``networks()``, asked again and again, until nobody is left.

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
    """Kill it, unless it has ended meanwhile and its number went to a process that lives elsewhere."""
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
