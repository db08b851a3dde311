"""Give bytes that are in memory to what takes a stream of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

_PIECE_BYTES = 1024 * 1024


async def stream_of(content: bytes) -> AsyncIterator[bytes]:
    """Yield the content in pieces of a megabyte, so that others are served between two of them."""
    yield content[:_PIECE_BYTES]
    for start in range(_PIECE_BYTES, len(content), _PIECE_BYTES):
        await asyncio.sleep(0)
        yield content[start : start + _PIECE_BYTES]
