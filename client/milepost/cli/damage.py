"""Tell damaged bytes from a connection that broke off: the one is to be named, the other to be tried again."""

from __future__ import annotations

from milepost.errors import Damaged, MilepostError, NotExist, StateTruncated, VersionMismatch


def is_damage(error: MilepostError) -> bool:
    """Return whether an error says that stored bytes are damaged.

    A state that ended early is, unless its cause is that the rest could not be had.
    """
    if isinstance(error, StateTruncated):
        return error.__cause__ is None or isinstance(error.__cause__, Damaged)
    return isinstance(error, Damaged)


def is_outdated(error: MilepostError) -> bool:
    """Return whether a state broke off, and the rest cannot be had because it was replaced or removed meanwhile."""
    return isinstance(error, StateTruncated) and isinstance(error.__cause__, (NotExist, VersionMismatch))
