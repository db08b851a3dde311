"""Hand calls from other threads to an event loop, with one wake-up of the loop for a whole batch of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Bridge:
    """A bridge runs calls in an event loop that any thread handed over, in the order in which they came.

    A wake-up of the loop costs a system call and a switch of threads. Answers come in batches, so a batch has one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._acts: deque[Callable[[], object]] = deque()
        self._awake = False
        self.wake_ups = 0

    def post(self, act: Callable[[], object]) -> None:
        """Let the loop run ``act`` soon. Any thread may call this; once the loop has ended, nothing happens."""
        self._acts.append(act)
        if not self._awake:
            # Two threads may both come here. Then there is one wake-up too many, but never one too few, since the loop
            # clears the flag before it looks at the queue.
            self._awake = True
            self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _run(self) -> None:
        self._awake = False
        self.wake_ups += 1
        try:
            for _ in range(len(self._acts)):
                self._acts.popleft()()
        finally:
            if self._acts and not self._awake:
                self._awake = True
                self._wake()
