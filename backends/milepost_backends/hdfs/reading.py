"""Read the bytes of one blob from HDFS, and go on after a DataNode died."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import Final

from hdfs_native import FileReader

from milepost_backends.contract import BlobMissing, BlobSizeDiffers, BlobTruncated, StorageUnavailable
from milepost_backends.hdfs.connection import HdfsConnection
from milepost_backends.hdfs.errors import PathMissing

CHUNK: Final = 1024 * 1024
_ATTEMPTS: Final = 4
_BACKOFF_SECONDS: Final = 0.1


class HdfsSource:
    """One reading of the file at ``path``, from byte ``start`` up to, but not including, byte ``end``.

    The file is to have ``expected`` bytes, if that is given.
    """

    def __init__(
        self, connection: HdfsConnection, path: str, start: int, end: int | None, expected: int | None
    ) -> None:
        self._connection = connection
        self._path = path
        self._position = start
        self._end = end
        self._expected = expected
        self._size: int | None = None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """See `BlobStore.get`. A chunk that fails is read again, from the DataNodes that the NameNode names then."""
        reader = await self._open()
        failures = 0
        while (wanted := self._left()) > 0:
            try:
                chunk = await self._connection.read("read a blob", partial(reader.read_range, self._position, wanted))
            except StorageUnavailable:
                failures += 1
                if failures == _ATTEMPTS:
                    raise
                await asyncio.sleep(_BACKOFF_SECONDS * 2**failures)
                reader = await self._open()
                continue
            failures = 0
            self._position += len(chunk)
            if len(chunk) < wanted:
                raise BlobTruncated(f"{self._path} ended at {self._position} while being read up to {self._end}")
            yield chunk

    async def _open(self) -> FileReader:
        """Ask where the bytes are now, and learn the size, which never changes: a blob is not replaced."""
        try:
            reader = await self._connection.ask("open a blob", lambda client: client.read(self._path))
        except PathMissing as error:
            if self._size is None:
                raise BlobMissing(f"there is no blob at {self._path}") from error
            raise BlobTruncated(f"{self._path} was deleted after {self._position} bytes of it were read") from error
        size = len(reader)
        if self._size not in (None, size):
            raise BlobTruncated(f"{self._path} was replaced while it was read")
        BlobSizeDiffers.check(size, self._expected)
        self._size = size
        self._end = size if self._end is None else min(self._end, size)
        return reader

    def _left(self) -> int:
        assert self._end is not None
        return min(CHUNK, self._end - self._position)
