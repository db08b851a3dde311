"""Work that is not left half done by a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def ended(work: Awaitable[T], seconds: float | None = None) -> T:
    """The result of ``work``; a cancellation is passed on once it has ended, as far as that takes ``seconds`` at most.

    Raises TimeoutError after ``seconds``; the work goes on then, without anybody.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    end = None if seconds is None else loop.time() + seconds
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            left = None if end is None else end - loop.time()
            if left is not None and left <= 0:
                break
            await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if task.done():
            task.exception()  # seen; the cancellation goes first
        raise cancelled
    if not task.done():
        raise TimeoutError
    return task.result()
