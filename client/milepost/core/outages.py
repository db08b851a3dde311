"""Which errors pass by themselves: the one list for everything that waits out an outage."""

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
"""The service cannot be had for now; nothing was applied."""

OUTAGES_OR_DOUBT = (*OUTAGES, OutcomeUnknown)
"""The same for calls that do no harm when they are repeated."""

_GONE = (Damaged, NotExist, VersionMismatch)


def hindrance(error: MilepostError) -> MilepostError | None:
    """What kept a state from being read, where that says nothing about the state itself; None for damage or loss.

    A state that ends early tells by its cause: it could not be read on, or what was read is wrong.
    """
    if isinstance(error, StateTruncated):
        cause = error.__cause__
        return cause if isinstance(cause, MilepostError) and not isinstance(cause, _GONE) else None
    return None if isinstance(error, _GONE) else error
