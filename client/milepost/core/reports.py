"""What the log is told while the service cannot be had, once for each outage and not once for each call."""

from __future__ import annotations

import logging
import math

from milepost.core.clock import Clock
from milepost.errors import MilepostError

log = logging.getLogger("milepost")

REMIND_SECONDS = 30.0  # an outage that goes on is told again
FLICKER_SECONDS = 1.0  # what is over sooner is not told each time that it begins anew
_MOST_CHARACTERS = 300


class Reports:
    """Tells of the first retry, of one now and then after it, and of who answered in the end. Everything else: debug.

    Shared between threads: at worst two tell the same.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leader: str | None = None
        self._since: float | None = None
        self._told = False
        self._quiet_until = -math.inf

    def retry(self, call: str, address: str, error: MilepostError, began: float, then: str) -> None:
        """An attempt at ``call`` that began at ``began`` came to nothing at ``address``; ``then`` is what comes next.

        A query is not told: it may have what is not for the log.
        """
        now = self._clock()
        if self._since is None:
            self._since = began
        level = logging.DEBUG
        if now >= self._quiet_until:
            level, self._told, self._quiet_until = logging.WARNING, True, now + REMIND_SECONDS
        log.log(level, "%s came to nothing at %s (%s): %s", call.partition("?")[0], address, _printable(error), then)

    def answered(self, address: str, began: float) -> None:
        """``address`` answered, as a leader does, a call that began at ``began``."""
        since, before = self._since, self._leader
        if since is None and before == address:
            return
        told, self._since, self._told, self._leader = self._told, None, False, address
        seconds = self._clock() - (began if since is None else since)
        if before != address or seconds >= FLICKER_SECONDS:
            self._quiet_until = -math.inf
        what = "answers again" if before == address else "leads" if before is None else f"leads now, after {before}"
        found = told or before not in (None, address)
        log.log(logging.INFO if found else logging.DEBUG, "%s %s, found in %.1f s", address, what, seconds)


def _printable(error: MilepostError) -> str:
    """What an error says, on one line: it may quote what others said."""
    text = str(error)[:_MOST_CHARACTERS]
    return "".join(character if character.isprintable() else "?" for character in text)
