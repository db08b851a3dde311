"""What can be done to a key: put a value, remove it, or append to it; and how two of these become one."""

from __future__ import annotations

from enum import IntEnum


class Op(IntEnum):
    """What was done to a key. The numbers stand in files."""

    PUT = 1
    REMOVE = 2
    APPEND = 3


Update = tuple[int, bytes]
"""What was done, and the value: of a removal, no bytes."""

Row = tuple[bytes, int, bytes]
"""A key with its family in front, what was done to it, and the value."""


def fold(older: Update, newer: Update) -> Update:
    """Return the one update that does what two did, one after the other."""
    if newer[0] != Op.APPEND:
        return newer
    if older[0] == Op.REMOVE:
        return Op.PUT, newer[1]
    return older[0], older[1] + newer[1]


def outcome(value: bytes | None, update: Update) -> bytes | None:
    """Return the value that a key has after an update, None if it has none."""
    op, new = update
    if op == Op.REMOVE:
        return None
    return new if op == Op.PUT or value is None else value + new
