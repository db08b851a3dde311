"""Check the paths of files that requests name."""

from __future__ import annotations

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.rules.stored.paths import checked_path

_NO_UTF_8 = "\ufffd"
"""What bytes that are no UTF-8 have become in a path, so that names that differ could not be told apart."""


def named_path(path: str) -> str:
    """Return a path of a tree without a slash at its end; empty for the root. Raises an ``invalid-name`` problem."""
    try:
        checked = checked_path(path)
    except ValueError as error:
        raise problem(Code.INVALID_NAME, str(error)) from error
    if path.startswith("/"):
        raise problem(Code.INVALID_NAME, f"{path[:80]!r} has an empty part")
    if _NO_UTF_8 in path:
        raise problem(Code.INVALID_NAME, f"{path[:80]!r} is no UTF-8")
    return checked
