"""Sees what is left of a process group: a process that has ended stays in it until somebody asks for its status."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

_ENDED = frozenset("ZX")


def lives(group: int) -> bool:
    """Return whether anything of the group runs.

    A signal also reaches what has ended, so where there is a ``/proc``, that is asked: a process 1 that asks no orphan
    for its status, as in many containers, would keep the group for ever.
    """
    with suppress(ChildProcessError):  # where this is process 1, orphans of the group become its children
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so also of what has ended, and whose status nobody has asked for
        if sys.platform == "darwin":
            return False
    states = _states(group)
    return not states or not states <= _ENDED


def _states(group: int) -> set[str]:
    """Return the states of its processes, as Linux calls them; nothing where they cannot be seen."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            state, _parent, of = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(of) == group:
                found.add(state)
    return found
