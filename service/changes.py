"""Wakes those who wait for something to change: campaigns for an epoch that is held."""

from __future__ import annotations

import asyncio


class Changes:
    """A wake-up for everybody who waits, at each commit."""

    def __init__(self) -> None:
        self._next: asyncio.Event = asyncio.Event()

    def announce(self) -> None:
        """Something was committed, or leadership ended."""
        if self._next.is_set():
            return
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Return at the next announcement, or after so many seconds."""
        event = self._next
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await event.wait()
        except TimeoutError:
            return
