"""Tells a caller how far the transfer of a state has come."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from milepost.core.clock import Clock

log = logging.getLogger("milepost.transfers")

Progress = Callable[[int, int | None], None]
"""A function that is told how many bytes are done, and how many there are (None: not known)."""

BETWEEN_SECONDS = 0.1
"""The least time between two calls while bytes move; a new beginning and the end are told at once."""


class Transfer:
    """Counts the bytes of one state, and tells them to the caller's function, if there is one.

    Whoever moves the bytes calls `report` before the next piece, so that an exception of the function stops the
    transfer where the request is surely incomplete.
    """

    def __init__(self, progress: Progress | None, clock: Clock) -> None:
        self._progress = progress
        self._clock = clock
        self._done = 0
        self._total: int | None = None
        self._quiet_until = -math.inf

    def begin(self, total: int | None) -> None:
        """Begin with no byte done, for the first time or again."""
        self._done, self._total, self._quiet_until = 0, total, -math.inf
        self.report()

    def add(self, size: int) -> None:
        """Count ``size`` bytes that were moved."""
        self._done += size

    def report(self) -> None:
        """Call the function, unless it was called a moment ago. Raises what it raises."""
        if self._progress is not None and (now := self._clock()) >= self._quiet_until:
            self._quiet_until = now + BETWEEN_SECONDS
            self._progress(self._done, self._total)

    def end(self) -> None:
        """Tell that all is done. Raises what the function raises."""
        self._quiet_until = -math.inf
        self.report()

    def end_stored(self, size: int) -> None:
        """Tell that all ``size`` bytes are stored. An exception of the function is only logged: the state is there, and
        the caller has to learn that.
        """
        self._done = self._total = size
        try:
            self.end()
        except Exception:
            log.exception("the progress function raised an exception after the state was stored")
