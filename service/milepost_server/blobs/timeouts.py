"""Limits how long calls of a blob store may take: each step of a call has its own deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import TypeVar

from milepost_backends.contract import (
    PATIENCE_SECONDS,
    BlobInfo,
    BlobStore,
    SignedRequest,
    StorageFull,
    StorageUnavailable,
)
from milepost_server.basics.waiting import seen, within

T = TypeVar("T")


class BlobsWithTimeout:
    """Wraps a `BlobStore`: a call raises `StorageUnavailable` if one of its steps takes longer than ``seconds``.

    A step of a put is the blob store's work on one chunk, without the time that the client takes to send it. Deletions
    and listings have no deadline here, since their callers set one; opening and closing have none either.
    """

    def __init__(self, blobs: BlobStore, seconds: float) -> None:
        self.beneath = blobs
        self._seconds = seconds
        self.full: str | None = None
        """Why the store had no room for the last put, as text; None once a put has succeeded since."""

    async def open(self) -> None:
        """Open the wrapped blob store (`BlobStore.open`)."""
        await self.beneath.open()

    async def close(self) -> None:
        """Close the wrapped blob store (`BlobStore.close`)."""
        await self.beneath.close()

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = PATIENCE_SECONDS) -> int:
        """Write a blob as `BlobStore.put` does, with a deadline for each chunk. After a missed deadline the blob may
        still appear.
        """
        loop = asyncio.get_running_loop()
        began: float | None = loop.time()

        async def watched() -> AsyncIterator[bytes]:
            nonlocal began
            while True:
                began = None
                chunk = await anext(stream, None)
                began = loop.time()
                if chunk is None:
                    return
                yield chunk

        putting = asyncio.ensure_future(self.beneath.put(key, watched(), patience=patience))
        try:
            while not putting.done():
                now = loop.time()
                # compute the deadline from the start of the step, since adding up remaining seconds may round it down
                due = (now if began is None else began) + self._seconds
                if now >= due:
                    raise StorageUnavailable(f"the blob store has not written a part within {self._seconds:g} s")
                await asyncio.wait((putting,), timeout=due - now)
        finally:
            putting.cancel()
            # nothing may wait for the put any more: `seen` prevents that asyncio logs its exception as never retrieved
            putting.add_done_callback(seen)
        try:
            size = putting.result()
        except StorageFull as error:
            self.full = str(error)
            raise
        self.full = None
        return size

    async def get(
        self, key: str, start: int = 0, end: int | None = None, *, size: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a blob as `BlobStore.get` does, with a deadline for each chunk."""
        chunks = self.beneath.get(key, start, end, size=size)
        while (chunk := await self._step(anext(chunks, None))) is not None:
            yield chunk

    async def size(self, key: str) -> int:
        """Return the size of a blob as `BlobStore.size` does, with a deadline."""
        return await self._step(self.beneath.size(key))

    async def delete(self, key: str) -> None:
        """Delete a blob as `BlobStore.delete` does, without a deadline."""
        await self.beneath.delete(key)

    async def delete_in_time(self, key: str) -> None:
        """Delete a blob as `BlobStore.delete` does, with a deadline. After a missed deadline the blob may still be
        deleted.
        """
        await self._step(self.beneath.delete(key))

    def list(self, prefix: str, older_than: float) -> AsyncIterator[BlobInfo]:
        """Yield the blobs whose key begins with ``prefix``, as `BlobStore.list` does, without a deadline."""
        return self.beneath.list(prefix, older_than)

    async def sign_put(self, key: str, size: int, sha256: str, seconds: float) -> SignedRequest | None:
        """Return a signed request with which a client may write a blob, as `BlobStore.sign_put` does, with a deadline;
        None if the blob store cannot sign.
        """
        return await self._step(self.beneath.sign_put(key, size, sha256, seconds))

    async def sign_get(self, key: str, seconds: float) -> SignedRequest | None:
        """Return a signed request with which a client may read a blob, as `BlobStore.sign_get` does, with a deadline;
        None if the blob store cannot sign.
        """
        return await self._step(self.beneath.sign_get(key, seconds))

    async def checked_digest(self, key: str) -> str | None:
        """Return the SHA-256 against which the blob store itself checked the bytes of a blob, as
        `BlobStore.checked_digest` does, with a deadline; None if it knows none.
        """
        return await self._step(self.beneath.checked_digest(key))

    async def _step(self, work: Awaitable[T]) -> T:
        try:
            return await within(self._seconds, work)
        except TimeoutError as error:
            raise StorageUnavailable(f"the blob store gave {error}") from error
