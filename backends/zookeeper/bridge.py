"""From other threads into an event loop, with one wake-up for all that was said since the last one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Bridge:
    """Acts are handed over by any thread and run by the loop in that order.

    A wake-up of the loop costs a system call and a switch of threads. Answers come in batches, so a batch has one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._acts: deque[Callable[[], object]] = deque()
        self._awake = False
        self.wake_ups = 0

    def post(self, act: Callable[[], object]) -> None:
        """Let the loop run ``act`` soon. From any thread; after the loop has ended nothing happens."""
        self._acts.append(act)
        if not self._awake:
            # Two threads may both come here: then there is one wake-up too many, never one too few, because the loop
            # clears the flag before it looks at what there is.
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
