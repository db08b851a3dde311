"""Reports the progress of an upload or a download to the function that the caller gave."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from milepost.core.clock import Clock

log = logging.getLogger("milepost.transfers")

Progress = Callable[[int, int | None], None]
"""A progress function; it gets the number of bytes done and the total (None: not known)."""

BETWEEN_SECONDS = 0.1
"""The least seconds between two calls of a progress function during a transfer; the beginning, also of a retry, and the
end are reported at once.
"""


class Transfer:
    """Counts the transferred bytes of one state, and reports them to the caller's progress function, if there is one.

    The code that moves the bytes calls `report` before the next piece, so that an exception of the function stops the
    transfer while the request is certainly incomplete.
    """

    def __init__(self, progress: Progress | None, clock: Clock) -> None:
        self._progress = progress
        self._clock = clock
        self._done = 0
        self._total: int | None = None
        self._quiet_until = -math.inf

    def begin(self, total: int | None) -> None:
        """Begin the transfer, or a retry of it, at byte 0 of ``total`` (None: not known), and report that."""
        self._done, self._total, self._quiet_until = 0, total, -math.inf
        self.report()

    def add(self, size: int) -> None:
        """Count ``size`` more bytes as transferred."""
        self._done += size

    def report(self) -> None:
        """Call the progress function, unless its last call was less than `BETWEEN_SECONDS` ago. Raises the function's
        exceptions.
        """
        if self._progress is not None and (now := self._clock()) >= self._quiet_until:
            self._quiet_until = now + BETWEEN_SECONDS
            self._progress(self._done, self._total)

    def end(self) -> None:
        """Report that all bytes are transferred, even if the last report was only a moment ago. Raises the progress
        function's exceptions.
        """
        self._quiet_until = -math.inf
        self.report()

    def end_stored(self, size: int) -> None:
        """Report that the service has stored all ``size`` bytes. An exception of the progress function is only logged,
        because an error would suggest that the state is not stored.
        """
        self._done = self._total = size
        try:
            self.end()
        except Exception:
            log.exception("the progress function raised an exception after the state was stored")
