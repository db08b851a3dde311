"""Blocking work in threads, in steps that end before anybody goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def whole_step(executor: Executor, act: Callable[..., T], *arguments: object) -> T:
    """Run ``act`` in a thread. A cancellation is passed on once ``act`` has ended, or if it never began.

    So whoever cleans up after a cancellation finds no thread still at work on what is cleaned up.
    """
    job = executor.submit(act, *arguments)
    ended = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if not job.cancel():
            while not ended.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([ended])
            ended.exception()  # seen; the cancellation goes first
        raise
