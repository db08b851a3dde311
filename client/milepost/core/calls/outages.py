"""The errors that pass by themselves: the one list for everything that waits out an outage."""

from __future__ import annotations

from milepost.errors import (
    ConnectionFailed,
    Damaged,
    DeadlineExceeded,
    MilepostError,
    NotExist,
    OutcomeUnknown,
    StateTruncated,
    Unavailable,
    VersionMismatch,
)

OUTAGES = (ConnectionFailed, DeadlineExceeded, Unavailable)
"""Errors that say: the service is unavailable for now, and nothing was applied."""

OUTAGES_OR_DOUBT = (*OUTAGES, OutcomeUnknown)
"""The same, and `OutcomeUnknown`, for calls that are safe to repeat."""

_GONE = (Damaged, NotExist, VersionMismatch)


def hindrance(error: MilepostError) -> MilepostError | None:
    """Return what kept a state from being read, or None if the error says that the state itself is damaged or gone.

    For a state that ended early the cause of the error decides: the rest could not be fetched, or the bytes were wrong.
    """
    if isinstance(error, StateTruncated):
        cause = error.__cause__
        return cause if isinstance(cause, MilepostError) and not isinstance(cause, _GONE) else None
    return None if isinstance(error, _GONE) else error
