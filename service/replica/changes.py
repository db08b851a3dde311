"""Wakes those who wait for a record to change, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class Changes:
    """Who waits for which key. A commit that concerns nobody here costs one look."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def announce(self, keys: Iterable[str]) -> None:
        """The records under these keys were changed."""
        if self._waiting:
            for key in keys:
                _wake(self._waiting.get(key, ()))

    def end(self) -> None:
        """Leadership is over: nothing will change here any more."""
        for waiting in self._waiting.values():
            _wake(waiting)

    async def wait(self, key: str, seconds: float) -> None:
        """Return when the record under ``key`` was changed, or after so many seconds."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(key, set())
        waiting.add(future)
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await future
        except TimeoutError:
            return
        finally:
            waiting.discard(future)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]


def _wake(waiting: Iterable[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
