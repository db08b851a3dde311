"""Wake the tasks that wait for one record to change, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class Changes:
    """The tasks that wait for a change, by the key of the record.

    A commit costs nearly nothing while no task waits.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def announce(self, keys: Iterable[str]) -> None:
        """Wake the tasks that wait for one of these keys, because their records were changed."""
        if self._waiting:
            for key in keys:
                _wake(self._waiting.get(key, ()))

    def end(self) -> None:
        """Wake all waiting tasks, because leadership is over and no record will change here any more."""
        for waiting in self._waiting.values():
            _wake(waiting)

    async def wait(self, key: str, seconds: float) -> None:
        """Wait until the record under ``key`` is changed, for ``seconds`` at most."""
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
