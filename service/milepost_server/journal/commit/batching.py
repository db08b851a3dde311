"""Adaptive batching decides whether the next group waits a little for the callers that were just answered.

A caller that waits for each answer sends its next request right after the answer. If the pointer store takes only one
commit at a time, the first of these requests would be committed alone, and the others would wait for two commits: that
one and their own. So the next group waits until as many requests have come in as were answered, and one commit serves
all of them. The group does not wait if, last time, these requests took longer to come in than a commit takes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

MOST_SECONDS: Final = 0.05


class AdaptiveBatching:
    """Decides when the next group is sent, by measuring how long commits take, and how fast callers send a new request
    after an answer.

    ``clock`` gives monotonic seconds, without it the event loop's. It calls ``ended`` when the wait for more requests
    has reached its time limit.
    """

    def __init__(self, ended: Callable[[], None], clock: Callable[[], float] | None = None) -> None:
        self._ended = ended
        self._clock = clock or _loop_time
        self._due = 0
        self._committed = 0.0
        self._launched = 0.0
        self._commit_seconds = 0.0
        self._return_seconds = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def launched(self) -> float:
        """Note that a group is sent to the pointer store now, and return this time."""
        self._launched = now = self._clock()
        if self._timer is not None:
            self._stop()
        return now

    def committed(self, answered: int) -> None:
        """Note that a group has been committed, and that ``answered`` callers are being answered now."""
        if self._due > 0:
            # not all callers of the previous group sent another request, so the next group does not wait for all of
            # them
            self._return_seconds = math.inf
        self._committed = self._clock()
        self._commit_seconds = self._committed - self._launched
        self._due = answered

    def arrived(self) -> None:
        """Note that a new request came in. Once as many new requests have come in as callers were answered, the next
        group may be sent.
        """
        self._due -= 1
        if self._due == 0:
            self._return_seconds = self._clock() - self._committed
            if self._timer is not None:
                self._stop()

    def complete(self) -> bool:
        """Return whether a group may be sent now.

        If not, the group may be sent once as many requests have `arrived` as were answered. If that takes too long, the
        function ``ended`` of the constructor is called.
        """
        if self._due <= 0 or self._return_seconds >= self._commit_seconds:
            return True
        if self._timer is None:
            left = self._committed + min(self._commit_seconds, MOST_SECONDS) - self._clock()
            if left <= 0:
                self.give_up()
                return True
            self._timer = asyncio.get_running_loop().call_later(left, self._late)
        return False

    def give_up(self) -> None:
        """Stop waiting for more requests, because too few have come in."""
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


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
