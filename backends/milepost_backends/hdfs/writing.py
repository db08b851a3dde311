"""Writes one blob to HDFS under a temporary name, closes it, and renames it to its own name, but never over another
file.

Closing the file makes it durable. With the last packet of each block the client asks the DataNodes to sync, so every
DataNode that is still in the pipeline has the bytes on its disk; and the NameNode has logged that the file is complete.

If the answer to a rename is lost, it is unknown whether the rename was applied. This is also unknown after a refusal,
if the library sent the request twice. To find out, the temporary file is moved to a third name. If that succeeds, the
rename was not applied, and can no longer be; the file is then renamed from its third name, within the caller's
patience.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Final

from milepost_backends.contract import BackendError, BlobExists, StorageRefused, StorageUnavailable
from milepost_backends.hdfs.connection import HdfsConnection
from milepost_backends.hdfs.errors import PathExists, PathMissing
from milepost_backends.repeating import Pauses, repeated
from milepost_backends.waiting import finish

if TYPE_CHECKING:
    from hdfs_native._internal import RawFileWriter

log = logging.getLogger(__name__)

CHUNK: Final = 1024 * 1024
_TIDY_SECONDS: Final = 10.0
_ATTEMPTS: Final = 4
_BACKOFF_SECONDS: Final = 0.5
# A blob up to this size is kept in memory while it is written: if a DataNode fails, its file can be begun anew.
_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024
# The most attempts at the rename of a blob. One fails if another replica has removed the blob's directory as empty.
_MOVES: Final = 3


class TemporaryFile:
    """A blob that is written to a temporary file first. One call of `write` stores the blob under ``key``.

    For ``patience`` see `BlobStore.put`.
    """

    def __init__(self, connection: HdfsConnection, key: str, patience: float) -> None:
        self._patience = patience
        self._connection = connection
        self._target = f"{connection.root}/{key}"
        self._temporary = self._fresh_name()
        self._writer: RawFileWriter | None = None
        self._in_memory: list[bytes] = []
        self._begun = False
        self._may_be_visible = False

    async def write(self, stream: AsyncIterator[bytes]) -> int:
        """Write the whole blob from ``stream``, and return its size in bytes. Raises the errors of `BlobStore.put`."""
        try:
            size = await self._fill(stream)
            await self._publish()
        # another process removed the temporary file, or the library made it twice
        except (PathMissing, PathExists) as error:
            await self._clean_up()
            raise StorageUnavailable(str(error)) from error
        except BaseException:
            await self._clean_up()
            raise
        return size

    async def _fill(self, stream: AsyncIterator[bytes]) -> int:
        size = 0
        async for piece, is_last in pieces(stream):
            size += len(piece)
            self._in_memory.append(piece)
            if size > _IN_MEMORY_BYTES:
                self._in_memory = [piece]
            await self._append(is_last, whole=size <= _IN_MEMORY_BYTES)
        return size

    async def _append(self, is_last: bool, *, whole: bool) -> None:
        """Write the latest piece of the stream. If that fails while ``whole``, begin the file anew, on other DataNodes.

        ``whole`` says that all bytes of the blob so far are still in memory. The client library itself does not replace
        a DataNode that dies while it writes. After the last piece, ``is_last``, the file is closed.
        """
        attempts = 0
        while True:
            try:
                return await self._try_to_append(is_last)
            except (StorageUnavailable, PathExists, PathMissing) as error:
                attempts += 1
                refused = isinstance(error, StorageRefused)
                if refused or not whole or attempts == _ATTEMPTS or isinstance(error.__cause__, TimeoutError):
                    raise
            await self._clean_up()
            await asyncio.sleep(_BACKOFF_SECONDS * 2**attempts)
            self._writer = None
            self._temporary = self._fresh_name()

    async def _try_to_append(self, is_last: bool) -> None:
        connection, latest = self._connection, self._in_memory[-1:]
        if self._writer is None:
            self._writer = await self._create()
            latest = self._in_memory
        for piece in latest:
            if piece:
                await connection.write("write a blob", partial(self._writer.write, piece))
        if is_last:
            await connection.write("complete a blob", self._writer.close)

    async def _create(self) -> RawFileWriter:
        self._begun = True
        try:
            return await self._connection.create(self._temporary)
        except PathMissing:  # another process removed the directory of temporary files
            await self._connection.make_directory(self._connection.uploading, private=True)
            return await self._connection.create(self._temporary)

    async def _publish(self) -> None:
        pauses = Pauses(self._patience)
        while True:
            self._may_be_visible = True
            try:
                return await self._move()
            except BackendError as error:
                if await repeated(self._is_visible, self._patience):
                    return None
                self._may_be_visible = False
                self._temporary = self._aside()  # `_is_visible` has moved the temporary file there
                if isinstance(error, PathExists):
                    raise BlobExists(f"there is a blob at {self._target} already") from error
                if not isinstance(error, StorageUnavailable):
                    raise
                await pauses.after(error)

    async def _move(self) -> None:
        """Rename the temporary file to the blob's own name; make the blob's directory if it is missing."""
        for _ in range(_MOVES):
            try:
                return await self._connection.rename(self._temporary, self._target)
            except PathMissing:
                await self._make_directory()
        raise StorageRefused(f"cannot complete a blob: it cannot be renamed to {self._target}")

    async def _make_directory(self) -> None:
        try:
            await self._connection.make_directory(self._target.rpartition("/")[0])
        except (PathMissing, PathExists) as error:
            raise StorageRefused(f"cannot complete a blob: {self._target} lies below a file") from error

    # -- clean-up ----------------------------------------------------------------------------------------------------

    async def _is_visible(self) -> bool:
        """Return whether the blob has its own name. If it does not, no rename that was sent before can give it that any
        more.

        Raises `StorageUnavailable`.
        """
        connection = self._connection
        try:
            await connection.move_aside(self._temporary, self._aside())
        # the rename was applied, or the move aside was sent twice and applied the first time
        except (PathMissing, PathExists):
            return not await connection.is_there(self._aside()) and await connection.confirmed(self._target)
        return False

    def _fresh_name(self) -> str:
        return f"{self._connection.uploading}/{uuid.uuid4().hex}"

    def _aside(self) -> str:
        return f"{self._temporary}.aside"

    async def _clean_up(self) -> None:
        """Delete the bytes that were written, for a limited time.

        A failure is only logged, since the caller raises its own error.
        """
        if self._begun:
            try:
                await finish(self._leave_nothing(), _TIDY_SECONDS)
            except TimeoutError:
                paths = self._temporary, self._target
                log.warning("an unfinished blob may be left at %s or %s: deleting it took too long", *paths)

    async def _leave_nothing(self) -> None:
        connection = self._connection
        try:
            if self._may_be_visible and await self._is_visible():
                await connection.delete(self._target)
            await connection.delete(self._temporary)
            await connection.delete(self._aside())
        except BackendError as error:
            log.warning("an unfinished blob may be left at %s or %s: %s", self._temporary, self._target, error)


async def pieces(stream: AsyncIterator[bytes]) -> AsyncGenerator[tuple[bytes, bool], None]:
    """Yield the stream in pieces of about a megabyte, each with whether it is the last one. The last piece may be
    empty.
    """
    chunks: list[bytes] = []
    waiting = 0
    async for chunk in stream:
        if waiting >= CHUNK:
            yield b"".join(chunks), False
            chunks, waiting = [], 0
        chunks.append(chunk)
        waiting += len(chunk)
    yield b"".join(chunks), True
