"""Requests that whoever is cancelled sees to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def whole(request: Coroutine[Any, Any, T]) -> T:
    """What comes of the request. A cancellation is passed on once it has ended, which it does by its own deadline.

    So whoever cleans up after a cancellation meets no request of before that is still on its way.
    """
    going = asyncio.ensure_future(request)
    try:
        return await asyncio.shield(going)
    except asyncio.CancelledError:
        while not going.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([going])
        if not going.cancelled():
            going.exception()  # seen; the cancellation goes first
        raise
