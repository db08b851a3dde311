"""Tells processes with the same id apart by when they began: a process that ended may have left its id to another."""

from __future__ import annotations

import os
from pathlib import Path


def began(pid: int) -> int | None:
    """Return when the process began, in clock ticks since the boot (see proc(5)); None for one that is gone."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if after_name[0] == "Z" else int(after_name[19])


def own() -> tuple[int, int]:
    """Return the id of this process, and when it began."""
    started = began(os.getpid())
    assert started is not None, "this process runs"
    return os.getpid(), started
