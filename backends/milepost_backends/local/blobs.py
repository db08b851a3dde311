"""Keeps blobs as files under a directory, which may be on a network file system that all replicas share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from milepost_backends.contract import PATIENCE_SECONDS, BackendError, BlobInfo, StorageRefused
from milepost_backends.local.files import CHUNK, TemporaryFile
from milepost_backends.local.tree import BlobTree
from milepost_backends.repeating import read_again, repeated
from milepost_backends.waiting import run_in_executor

T = TypeVar("T")

_LISTED_AT_ONCE = 500

log = logging.getLogger(__name__)


class LocalBlobs:
    """A `BlobStore` in ``directory``. ``threads`` bounds the calls that use the disk at the same time.

    Temporary files whose writers have ended are removed when the blob store is opened, and every
    ``maintenance_seconds``.
    """

    def __init__(self, directory: Path, *, threads: int = 16, maintenance_seconds: float = 3600.0) -> None:
        self._tree = BlobTree(directory)
        self._threads_at_most = threads
        self._threads: ThreadPoolExecutor | None = None
        self._maintenance_seconds = maintenance_seconds
        self._maintaining: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make the directory, and check that blobs can be written and read there; see `BlobStore.open`.

        It also removes temporary files whose writers have ended.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._threads_at_most, thread_name_prefix="blobs")
        try:
            await self._step(self._tree.prepare)
        except BaseException:
            await self.close()
            raise
        if self._maintaining is None:
            self._maintaining = asyncio.create_task(self._maintain(), name="blob-maintenance")

    async def close(self) -> None:
        """End the regular clean-up and the threads; see `BlobStore.close`.

        Running calls raise `StorageUnavailable` at their next step.
        """
        maintaining, self._maintaining = self._maintaining, None
        if maintaining is not None:
            maintaining.cancel()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = PATIENCE_SECONDS) -> int:
        """Write a blob to its file, each megabyte by one call in a thread, and return its size; see `BlobStore.put`.

        Only the last call is repeated after a failure. It writes the whole of a blob up to a megabyte, and gives a
        larger blob its name.
        """
        temporary = self._tree.temporary(key)
        size, chunks, waiting = 0, [], 0
        try:
            async for chunk in stream:
                chunks.append(chunk)
                waiting += len(chunk)
                if waiting >= CHUNK:
                    await self._step(temporary.write, chunks)
                    size, chunks, waiting = size + waiting, [], 0
            await repeated(partial(self._step, temporary.publish, chunks), patience)
        except BaseException:
            await self._discard(temporary)
            raise
        return size + waiting

    async def get(
        self, key: str, start: int = 0, end: int | None = None, *, size: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield a range of a blob from its file, in chunks; see `BlobStore.get`.

        If the blob is deleted while it is read, it can still be read to its end.
        """
        if start < 0 or (end is not None and end < 0):
            raise ValueError(f"a range has no negative bounds: {start}, {end}")
        source = self._tree.source(key, start, end, size)
        try:
            chunk = await read_again(partial(self._step, source.open))
            while chunk:
                yield chunk
                chunk = await read_again(partial(self._step, source.read)) if source.more else b""
        finally:
            source.close()

    async def size(self, key: str) -> int:
        """Return the size of the file of the blob ``key``; see `BlobStore.size`."""
        return await self._step(self._tree.size, key)

    async def delete(self, key: str) -> None:
        """Delete the file of the blob ``key``; see `BlobStore.delete`.

        The deletion is not synced, so the blob may exist again after a power failure. The service's garbage collector
        then deletes it.
        """
        await self._step(self._tree.delete, key)

    async def list(self, prefix: str, older_than: float) -> AsyncGenerator[BlobInfo, None]:
        """Yield the blobs below ``prefix`` of at least a given age; see `BlobStore.list`.

        The age is the time since the file was last written.
        """
        found = self._tree.find(prefix, older_than)
        try:
            while batch := await self._step(_next_batch, found):
                for info in batch:
                    yield info
        finally:
            found.close()

    async def sign_put(self, key: str, size: int, sha256: str, seconds: float) -> None:
        """Return None, since no URL leads to a file in a directory. See `BlobStore.sign_put`."""

    async def sign_get(self, key: str, seconds: float) -> None:
        """Return None, since no URL leads to a file in a directory. See `BlobStore.sign_get`."""

    async def checked_digest(self, key: str) -> None:
        """Return None, since a file system keeps no digests. See `BlobStore.checked_digest`."""

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(self._maintenance_seconds)
            try:
                await self._step(self._tree.maintain)
            except BackendError as error:
                log.warning("cannot remove abandoned temporary files of blobs, and try again later: %s", error)

    async def _step(self, act: Callable[..., T], *arguments: object) -> T:
        if self._threads is None:
            raise StorageRefused("the blob store is not open")
        return await run_in_executor(self._threads, act, *arguments)

    async def _discard(self, temporary: TemporaryFile) -> None:
        if self._threads is None:  # the store was closed, so no thread of it can make this call
            temporary.discard()
        else:
            await run_in_executor(self._threads, temporary.discard)


def _next_batch(found: Iterator[BlobInfo]) -> tuple[BlobInfo, ...]:
    return tuple(islice(found, _LISTED_AT_ONCE))
