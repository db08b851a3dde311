"""Streams of bytes to put, and what the suites read back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable

from milepost_backends.contract import BlobMissing, BlobStore, StorageUnavailable


async def stream(*chunks: bytes) -> AsyncIterator[bytes]:
    """The chunks, one after another."""
    for chunk in chunks:
        yield chunk


async def fresh_stream(count: int, size: int) -> AsyncIterator[bytes]:
    """So many chunks of so many bytes, each made when it is asked for."""
    for number in range(count):
        yield bytes([number % 251]) * size
        await asyncio.sleep(0)


class Broken(Exception):
    """What a stream of `broken_stream` ends with."""


async def broken_stream(count: int, size: int) -> AsyncIterator[bytes]:
    """Some chunks, and then an error."""
    async for chunk in fresh_stream(count, size):
        yield chunk
    raise Broken


class Stalled:
    """A stream that gives its chunks and then waits; `stalled` is set when it does."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks
        self.stalled = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
        self.stalled.set()
        await asyncio.Event().wait()


async def read(store: BlobStore, key: str, start: int = 0, end: int | None = None) -> bytes:
    """The bytes of a blob, or of a part of it."""
    return b"".join([chunk async for chunk in store.get(key, start, end)])


async def keys(store: BlobStore, prefix: str = "", older_than: float = 0.0) -> list[str]:
    """The listed keys, sorted; each is listed once."""
    found = [info.key async for info in store.list(prefix, older_than)]
    assert len(set(found)) == len(found)
    return sorted(found)


async def is_missing_or(store: BlobStore, key: str, data: bytes) -> bool:
    """Whether nothing or just these bytes are there, by one look: a put of unknown outcome may be committed
    between two.
    """
    try:
        return await read(store, key) == data
    except BlobMissing:
        return True


async def is_missing(store: BlobStore, key: str) -> bool:
    """Whether nothing is visible under the key, by any way of looking."""
    try:
        size = await store.size(key)
    except BlobMissing:
        try:
            data = await read(store, key)
        except BlobMissing:
            return key not in await keys(store, key)
        raise AssertionError(f"{len(data)} bytes of a blob without a size") from None
    assert len(await read(store, key)) == size
    return False


async def is_unavailable(call: Awaitable[object]) -> bool:
    """Whether the call says, within its deadlines, that the store does not answer."""
    try:
        async with asyncio.timeout(120):
            await call
    except StorageUnavailable:
        return True
    return False
