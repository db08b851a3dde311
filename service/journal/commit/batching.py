"""Whether a group waits for the callers that were just answered: a caller who waits for each answer asks again at once.

While a commit is on its way nothing else is submitted where only one may be. Were the first request to come back
committed alone, all the others would wait for that commit and then for their own. So the group waits for them, if
they came back sooner last time than a commit took: one commit for all of them instead of two for a part each. If not,
it does not, and the next commit is under way while they are being answered.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

MOST_SECONDS: Final = 0.05


class AdaptiveBatching:
    """Watches how long commits take, and how soon as many requests come in as were answered.

    Times are the loop's. ``ended`` is called when the wait for a group to gather is over by time.
    """

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._due = 0
        self._landed = 0.0
        self._launched = 0.0
        self._commit_seconds = 0.0
        self._return_seconds = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def launched(self) -> None:
        """A group is on its way."""
        self._launched = _now()
        self._stop()

    def landed(self, answered: int) -> None:
        """A group has landed, and so many callers are being answered."""
        if self._due > 0:
            self._return_seconds = math.inf  # those of the last group are not all back yet
        self._landed = _now()
        self._commit_seconds = self._landed - self._launched
        self._due = answered

    def arrived(self) -> None:
        """A request came in."""
        self._due -= 1
        if self._due == 0:
            self._return_seconds = _now() - self._landed
            self._stop()

    def complete(self) -> bool:
        """Whether a group may go; if not, ``ended`` is called when it may, unless all have `arrived` before."""
        if self._due <= 0 or self._return_seconds >= self._commit_seconds:
            return True
        if self._timer is None:
            left = self._landed + min(self._commit_seconds, MOST_SECONDS) - _now()
            if left <= 0:
                self.give_up()
                return True
            self._timer = asyncio.get_running_loop().call_later(left, self._late)
        return False

    def give_up(self) -> None:
        """Wait for nobody any more."""
        self._due = 0
        self._return_seconds = math.inf
        self._stop()

    def _late(self) -> None:
        self._timer = None
        self.give_up()
        self._ended()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _now() -> float:
    return asyncio.get_running_loop().time()
