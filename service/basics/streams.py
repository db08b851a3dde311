"""Give bytes that are in memory to what takes a stream of them."""

from __future__ import annotations

from collections.abc import AsyncIterator


async def stream_of(content: bytes) -> AsyncIterator[bytes]:
    """Yield the content as the only chunk of a stream."""
    yield content
