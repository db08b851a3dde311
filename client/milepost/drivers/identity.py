"""Who this process is, for people: the holder of a session that was not given one."""

from __future__ import annotations

import getpass
import os
import platform

MOST_CHARACTERS = 200
"""What the service takes at most."""


def default_holder() -> str:
    """``user@host:pid``, without what the service refuses in the name of a holder."""
    told = f"{_user()}@{platform.node() or 'unknown'}:{os.getpid()}"
    return "".join(character if character.isprintable() else "?" for character in told)[-MOST_CHARACTERS:]


def _user() -> str:
    """The user's name, or number where it has no name, as in many a container."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # the latter two up to Python 3.12
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
