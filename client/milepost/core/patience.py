"""How long the steps of a download may take."""

from __future__ import annotations

import math

from milepost.core.clock import Clock
from milepost.errors import DeadlineExceeded


class Patience:
    """How long a download may take: ``timeout`` seconds for its start and for each resumption, or, if ``whole``, for
    all of it together.
    """

    def __init__(self, timeout: float, whole: bool, clock: Clock) -> None:
        self._timeout = timeout
        self._clock = clock
        self._deadline = clock() + timeout if whole else math.inf

    @property
    def left(self) -> float:
        """Seconds that the next step may take; the whole download is over when there are none."""
        return min(self._timeout, self.left_in_all)

    @property
    def left_in_all(self) -> float:
        """Seconds until the whole download has to be over."""
        return self._deadline - self._clock()

    def raise_if_over(self, received: int, size: int) -> None:
        """Raise `DeadlineExceeded` if no time is left."""
        if self.left_in_all <= 0:
            raise DeadlineExceeded(f"the deadline passed after {received} of the {size} bytes of the state")
