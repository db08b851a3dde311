"""Keep blobs as files in a directory of HDFS."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Final

from hdfs_native import FileReader

from milepost_backends.contract import (
    PATIENCE_SECONDS,
    BlobInfo,
    BlobMissing,
    BlobSizeDiffers,
    BlobTruncated,
    StorageRefused,
    StorageUnavailable,
    check_key,
    check_prefix,
)
from milepost_backends.hdfs.address import parse_address
from milepost_backends.hdfs.connection import HdfsConnection
from milepost_backends.hdfs.directory import (
    ABANDONED_AFTER_SECONDS,
    NameNodeClock,
    clear_up,
    prepare,
    remove_empty,
    walk,
)
from milepost_backends.hdfs.errors import DirectoryNotEmpty, PathMissing
from milepost_backends.hdfs.writing import TemporaryFile

_READ_CHUNK: Final = 1024 * 1024
_READ_ATTEMPTS: Final = 4
_READ_BACKOFF_SECONDS: Final = 0.1


@dataclass
class _Opened:
    """What an `HdfsBlobs` has only while it is open: a connection, the NameNode's clock, and the time of the last
    clean-up.
    """

    connection: HdfsConnection
    clock: NameNodeClock
    cleared_at: float


class HdfsBlobs:
    """A `BlobStore` at an ``hdfs://`` URL (see `parse_address`). The Hadoop configuration completes the URL.

    The configuration consists of core-site.xml and hdfs-site.xml in HADOOP_CONF_DIR (or HADOOP_HOME/etc/hadoop),
    HADOOP_USER_NAME, and for a secured cluster the Kerberos ticket cache or HADOOP_TOKEN_FILE_LOCATION.

    ``deadline`` (seconds) bounds each exchange with a NameNode or a DataNode; a step of writing may take three times as
    long. Since a second server may be tried within a call, a caller should allow three deadlines for any other call
    too. `list` deletes abandoned files once in ``clear_every`` seconds. Raises `Misconfigured`.
    """

    def __init__(self, url: str, *, deadline: float = 30.0, clear_every: float = 3600.0) -> None:
        self._address = parse_address(url)
        self._deadline = deadline
        self._clear_every = clear_every
        self._opened: _Opened | None = None
        self._tried: HdfsConnection | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Connect, make the directory of the blobs, and check that it can be used; see `BlobStore.open`.

        Unfinished files in it that are older than a day are deleted.
        """
        async with self._opening:
            if self._opened is None:
                # After a failed open the same connection is used, since it limits the number of calls that hang.
                self._tried = connection = self._tried or HdfsConnection(self._address, deadline=self._deadline)
                self._opened = _Opened(connection, await prepare(connection), time.monotonic())

    async def close(self) -> None:
        """Close the connection to HDFS; see `BlobStore.close`. A running put either succeeds or raises
        `StorageUnavailable`.
        """
        async with self._opening:
            opened, self._opened, self._tried = self._opened, None, None
            if opened is not None:
                opened.connection.close()

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = PATIENCE_SECONDS) -> int:
        """Write a blob to HDFS, and return its size in bytes; see `BlobStore.put`.

        The bytes are then synced on the disk of every DataNode that stayed in the write pipeline.
        """
        return await TemporaryFile(self._connection, check_key(key), patience).write(stream)

    async def get(
        self, key: str, start: int = 0, end: int | None = None, *, size: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield a range of a blob from HDFS, in chunks; see `BlobStore.get`."""
        if start < 0 or (end is not None and end < 0):
            raise ValueError(f"a range has no negative bounds: {start}, {end}")
        connection = self._connection
        chunks = _HdfsSource(connection, f"{connection.root}/{check_key(key)}", start, end, size).chunks()
        async with aclosing(chunks):
            try:
                async for chunk in chunks:
                    yield chunk
            except BlobMissing:
                await self._confirm_root(connection)
                raise

    async def size(self, key: str) -> int:
        """Return the size of the blob ``key``, which the NameNode knows; see `BlobStore.size`."""
        connection = self._connection
        path = f"{connection.root}/{check_key(key)}"
        try:
            status = await connection.status(path)
        except PathMissing as error:
            await self._confirm_root(connection)
            raise BlobMissing(f"there is no blob at {path}") from error
        if status.isdir:
            raise BlobMissing(f"there is a directory, not a blob, at {path}")
        return status.length

    async def delete(self, key: str) -> None:
        """Delete a blob at once, without the trash of HDFS; see `BlobStore.delete`."""
        connection = self._connection
        try:
            await connection.delete(f"{connection.root}/{check_key(key)}")
        except (PathMissing, DirectoryNotEmpty):
            return  # there is no such blob: a part of the key is another blob, or the key is a directory

    async def list(self, prefix: str, older_than: float) -> AsyncGenerator[BlobInfo, None]:
        """Yield the blobs below ``prefix`` of at least a given age; see `BlobStore.list`.

        The age is the time since the file was closed, by the NameNode's clock. This call also removes directories that
        were empty for a day and, from time to time, unfinished files as `open` does.
        """
        opened = self._open_now()
        connection, clock = opened.connection, opened.clock
        below = check_prefix(prefix).rpartition("/")[0]
        if time.monotonic() - opened.cleared_at >= self._clear_every:
            opened.cleared_at = time.monotonic()
            await clear_up(connection, clock)
        async for status in walk(connection, f"{connection.root}/{below}".rstrip("/")):
            age = clock.age(status)
            if status.isdir:
                if age >= ABANDONED_AFTER_SECONDS:
                    await remove_empty(connection, status.path)
                continue
            key = status.path.removeprefix(f"{connection.root}/")
            if key.startswith(prefix) and age >= older_than:
                yield BlobInfo(key, status.length, age)

    async def sign_put(self, key: str, size: int, sha256: str, seconds: float) -> None:
        """Return None, since HDFS cannot sign: no URL carries the right to write a file. See `BlobStore.sign_put`."""

    async def sign_get(self, key: str, seconds: float) -> None:
        """Return None, since HDFS cannot sign: no URL carries the right to read a file. See `BlobStore.sign_get`."""

    async def checked_digest(self, key: str) -> None:
        """Return None, since HDFS keeps its own checksums, but no SHA-256. See `BlobStore.checked_digest`."""

    async def _confirm_root(self, connection: HdfsConnection) -> None:
        """Raise `StorageUnavailable` if the root directory of the blobs does not exist.

        Its absence, and not that of one blob, is then the reason why a blob was missing.
        """
        try:
            await connection.status(connection.root)
        except PathMissing as error:
            raise StorageUnavailable(f"the directory {connection.root} does not exist any more") from error

    @property
    def _connection(self) -> HdfsConnection:
        return self._open_now().connection

    def _open_now(self) -> _Opened:
        if self._opened is None:
            raise StorageRefused("the blob store is not open")
        return self._opened


class _HdfsSource:
    """One read of the file at ``path``, from byte ``start`` up to, but not including, byte ``end``.

    If ``expected`` is given, the file must have that many bytes.
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
        """Yield the bytes of the range in chunks; see `BlobStore.get`.

        After a failure, the NameNode is asked again which DataNodes have the bytes, and the chunk is read from these.
        """
        reader = await self._open()
        failures = 0
        while (wanted := self._left()) > 0:
            try:
                chunk = await self._connection.read("read a blob", partial(reader.read_range, self._position, wanted))
            except StorageUnavailable:
                failures += 1
                if failures == _READ_ATTEMPTS:
                    raise
                await asyncio.sleep(_READ_BACKOFF_SECONDS * 2**failures)
                reader = await self._open()
                continue
            failures = 0
            self._position += len(chunk)
            if len(chunk) < wanted:
                raise BlobTruncated(f"{self._path} ended at {self._position} while being read up to {self._end}")
            yield chunk

    async def _open(self) -> FileReader:
        """Ask the NameNode which DataNodes have the bytes of the file, and return a reader of them.

        The NameNode also returns the size of the file, which must be the same each time, since blobs are never
        replaced.
        """
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
        return min(_READ_CHUNK, self._end - self._position)
