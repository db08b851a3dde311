"""Reads the bytes of one blob from S3, as a stream that resumes where a connection broke."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

import obstore

from milepost_backends.contract import BlobMissing, BlobSizeDiffers, BlobTruncated, StorageUnavailable
from milepost_backends.repeating import read_again, reading
from milepost_backends.s3.connection import S3Connection
from milepost_backends.s3.errors import ConditionFailed

if TYPE_CHECKING:
    from obstore import GetResult

CHUNK: Final = 256 * 1024


class S3Source:
    """One reading of the bytes of the blob under ``key``, from ``start`` up to, but not including, ``end``.

    The blob must have ``size`` bytes, if that is given.
    """

    def __init__(self, connection: S3Connection, key: str, start: int, end: int | None, size: int | None) -> None:
        self._connection = connection
        self._path = connection.prefix + key
        self._begin = start
        self._position = start
        self._end = end
        self._size = size
        self._tag: str | None = None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """See `BlobStore.get`. After a break, reading goes on from there if an ETag shows that the blob is the same."""
        if self._begin > 0 or self._end is not None:
            size = await read_again(self._look)
            self._end = size if self._end is None else min(self._end, size)
            if self._begin >= self._end:
                return
        pauses = reading()
        while True:
            try:
                result = await self._open()
                async for chunk in self._stream(result):
                    pauses = reading()
                    yield chunk
            except StorageUnavailable as error:
                if self._tag is None and self._position > self._begin:
                    raise
                await pauses.after(error)
            except ConditionFailed as error:
                raise BlobTruncated(f"{self._path} was replaced while it was read") from error
            except BlobMissing as error:
                if self._position == self._begin:
                    raise
                raise BlobTruncated(f"{self._path} was deleted after {self._position} bytes of it were read") from error
            else:
                return

    async def _look(self) -> int:
        with self._connection.translate_errors("look at a blob"):
            async with asyncio.timeout(self._connection.deadline):
                meta = await obstore.head_async(self._connection.reading, self._path)
        self._tag = meta["e_tag"]
        BlobSizeDiffers.check(meta["size"], self._size)
        return meta["size"]

    async def _open(self) -> GetResult:
        """Ask for the rest of the range, and learn the blob's size and ETag if they are not known yet."""
        with self._connection.translate_errors("read a blob"):
            async with asyncio.timeout(self._connection.deadline):
                result = await self._get()
        if self._end is None:
            BlobSizeDiffers.check(result.meta["size"], self._size)
            self._end = result.meta["size"]
            self._tag = result.meta["e_tag"]
        return result

    async def _get(self) -> GetResult:
        store, path = self._connection.reading, self._path
        if self._end is None:
            return await obstore.get_async(store, path)
        span = (self._position, self._end)
        if self._tag is None:
            return await obstore.get_async(store, path, options={"range": span})
        return await obstore.get_async(store, path, options={"range": span, "if_match": self._tag})

    async def _stream(self, result: GetResult) -> AsyncGenerator[bytes, None]:
        assert self._end is not None
        stream = result.stream(min_chunk_size=CHUNK)
        while self._position < self._end:
            with self._connection.translate_errors("read a blob"):
                async with asyncio.timeout(self._connection.deadline):
                    got = await anext(stream, None)
            if got is None:
                raise BlobTruncated(f"{self._path} ended at {self._position} while being read up to {self._end}")
            whole = memoryview(got)
            for begin in range(0, len(whole), CHUNK):
                chunk = bytes(whole[begin : begin + CHUNK])
                self._position += len(chunk)
                yield chunk
