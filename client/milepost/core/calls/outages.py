"""Outages: which errors pass by themselves, and a log that reports each outage once instead of each failed call."""

from __future__ import annotations

import logging
import math

from milepost.core.clock import Clock
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
"""The errors after which the same call may succeed later: the service is unavailable, and nothing was applied."""

OUTAGES_OR_DOUBT = (*OUTAGES, OutcomeUnknown)
"""The errors after which a call that is safe to repeat may succeed later: `OUTAGES`, and `OutcomeUnknown`."""

_GONE = (Damaged, NotExist, VersionMismatch)

log = logging.getLogger("milepost.calls")

REMIND_SECONDS = 30.0  # seconds after which an outage that continues is logged again
FLICKER_SECONDS = 1.0  # after an outage of fewer seconds, the next one is not logged at once
_MOST_CHARACTERS = 300


def hindrance(error: MilepostError) -> MilepostError | None:
    """Return the error that prevented reading a state, or None if the error says that the state itself is damaged or
    gone.

    For a `StateTruncated`, the cause of the error decides: with a cause, the rest of the state could not be read;
    without one, the service sent wrong bytes.
    """
    if isinstance(error, StateTruncated):
        cause = error.__cause__
        return cause if isinstance(cause, MilepostError) and not isinstance(cause, _GONE) else None
    return None if isinstance(error, _GONE) else error


class Reports:
    """Logs the retries of a client: the first retry, then one every `REMIND_SECONDS`, and at last the replica that
    answered.

    Other retries are logged at level DEBUG. Threads share this object; at worst two of them log the same retry.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leader: str | None = None
        self._since: float | None = None
        self._logged = False
        self._quiet_until = -math.inf

    @property
    def answered_once(self) -> bool:
        """Return whether any replica has ever answered as the leader."""
        return self._leader is not None

    def retry(self, call: str, address: str, error: MilepostError, began: float, then: str) -> None:
        """Log that an attempt, which began at ``began`` (monotonic), failed at the replica ``address``; ``then`` says
        in words what the client does next.

        ``call`` is the method and path. The log omits its query, which may contain secrets.
        """
        now = self._clock()
        if self._since is None:
            self._since = began
        level = logging.DEBUG
        if now >= self._quiet_until:
            level, self._logged, self._quiet_until = logging.WARNING, True, now + REMIND_SECONDS
        log.log(level, "%s failed at %s (%s): %s", call.partition("?")[0], address, _printable(error), then)

    def answered(self, address: str, began: float) -> None:
        """Log that the replica ``address`` answered as the leader, if it is a new leader or an outage has ended. The
        call began at ``began`` (monotonic).
        """
        since, before = self._since, self._leader
        if since is None and before == address:
            return
        logged, self._since, self._logged, self._leader = self._logged, None, False, address
        seconds = self._clock() - (began if since is None else since)
        if before != address or seconds >= FLICKER_SECONDS:
            self._quiet_until = -math.inf
        what = "is the leader" if before is None else f"is the leader now, instead of {before}"
        if before == address:
            what = "answers again"
        found = logged or before not in (None, address)
        log.log(logging.INFO if found else logging.DEBUG, "replica %s %s, found after %.1f s", address, what, seconds)


def _printable(error: MilepostError) -> str:
    """Return the text of an error as one printable line of bounded length, since the error may quote text from other
    programs.
    """
    text = str(error)[:_MOST_CHARACTERS]
    return "".join(character if character.isprintable() else "?" for character in text)
