"""The name by which this process introduces itself to people, if its session is given no holder."""

from __future__ import annotations

import getpass
import os
import platform

MOST_CHARACTERS = 200
"""The longest holder that the service accepts."""


def default_holder() -> str:
    """Return ``user@host:pid``, without the characters that the service refuses in a holder."""
    holder = f"{_user()}@{platform.node() or 'unknown'}:{os.getpid()}"
    return "".join(character if character.isprintable() else "?" for character in holder)[-MOST_CHARACTERS:]


def _user() -> str:
    """Return the user's name, or the user id where it has no name, as in many containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # KeyError and ImportError: up to Python 3.12
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
