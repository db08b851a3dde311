"""Prepares a directory of HDFS for blobs, lists its files, and deletes those that no writer has touched for long."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import Final

from hdfs_native import Client, FileStatus

from milepost_backends.contract import BackendError, Misconfigured, StorageFull, UnsafeKey, check_key
from milepost_backends.hdfs.connection import HdfsConnection
from milepost_backends.hdfs.errors import DirectoryNotEmpty, PathExists, PathMissing

log = logging.getLogger(__name__)

# The age from which an unfinished file counts as abandoned, and is deleted. Since the age counts from the creation of
# the file, a put that takes longer fails.
ABANDONED_AFTER_SECONDS: Final = 86400.0
_PROBE: Final = ".probe-"
_PROBE_CONTENT: Final = b"milepost"
_LISTED_AT_ONCE: Final = 500


class NameNodeClock:
    """The NameNode's time: ``milliseconds`` when this object is made, and then continued by this machine's monotonic
    clock.
    """

    def __init__(self, milliseconds: int) -> None:
        self._read = milliseconds / 1000
        self._at = time.monotonic()

    def age(self, status: FileStatus) -> float:
        """Return the seconds since a file was completed, or since the content of a directory last changed."""
        return max(0.0, self._read + time.monotonic() - self._at - status.modification_time / 1000)


async def prepare(connection: HdfsConnection, abandoned_after: float = ABANDONED_AFTER_SECONDS) -> NameNodeClock:
    """Make the root directory of the blobs, check that blobs can be written and read there, and delete unfinished
    files.

    A file is unfinished if its writer has not touched it for ``abandoned_after`` seconds. Return the clock of the
    NameNode. Raises `Misconfigured`, `StorageUnavailable`.
    """
    # this machine's time is used if a quota forbids the file by which the NameNode's time is read
    clock = NameNodeClock(round(time.time() * 1000))
    try:
        await _make_root(connection)
        clock = await _read_clock(connection)
        await _try_out(connection)
    except StorageFull as error:
        log.warning("HDFS has no room, so the blob store opens for reading and deleting only: %s", error)
    await clear_up(connection, clock, abandoned_after)
    return clock


async def _make_root(connection: HdfsConnection) -> None:
    """Make the root directory of the blobs, and the directory of temporary files, if they are missing.

    An existing directory is only checked, since this user may not have the right to make it.
    """
    for path in (connection.root, connection.uploading):
        try:
            status = await connection.status(path, set_up=True)
        except PathMissing:
            try:
                await connection.make_directory(path.rpartition("/")[0] or "/", set_up=True)
                await connection.make_directory(path, private=True, set_up=True)
            except (PathMissing, PathExists) as error:
                raise Misconfigured(f"{path} cannot be made a directory: {error}") from error
        else:
            if not status.isdir:
                raise Misconfigured(f"{path} is a file, and must be a directory")


async def _read_clock(connection: HdfsConnection) -> NameNodeClock:
    """Return the NameNode's clock, read from the modification time of a new, empty file."""
    async with _probe(connection) as path:
        writer = await connection.create(path, set_up=True)
        await connection.write(f"write to {connection.root}", writer.close, set_up=True)
        return NameNodeClock((await connection.status(path, set_up=True)).modification_time)


async def _try_out(connection: HdfsConnection) -> None:
    """Write, rename, read and delete a small file, to check that blobs can be put, read and deleted."""
    doing = f"work in {connection.root}"
    async with _probe(connection) as written, _probe(connection, connection.root) as moved:
        writer = await connection.create(written, set_up=True)
        await connection.write(doing, partial(writer.write, _PROBE_CONTENT), set_up=True)
        await connection.write(doing, writer.close, set_up=True)
        await connection.rename(written, moved, set_up=True)
        reader = await connection.ask(doing, lambda client: client.read(moved), set_up=True)
        if await connection.read(doing, reader.read, set_up=True) != _PROBE_CONTENT:
            raise Misconfigured(f"a file written to {connection.root} does not read back the same")


@asynccontextmanager
async def _probe(connection: HdfsConnection, directory: str | None = None) -> AsyncIterator[str]:
    """Yield the path for a small test file, and delete the file after the block.

    If the deletion fails, a later `clear_up` deletes the file. Without a ``directory``, the path is in that of
    temporary files.
    """
    path = f"{directory or connection.uploading}/{_PROBE}{uuid.uuid4().hex}"
    try:
        yield path
    finally:
        try:
            await connection.delete(path)
        except BackendError as error:
            log.warning("cannot delete the small file %s of a trial, which is cleared up later: %s", path, error)


async def walk(connection: HdfsConnection, directory: str) -> AsyncGenerator[FileStatus, None]:
    """Yield each file below ``directory``, and each empty directory there.

    Names that no key of a blob can have are left out, such as Milepost's own names with a leading dot; so are files
    that vanish meanwhile.
    """
    ahead: list[FileStatus] = []
    below, path = None, directory
    while True:
        empty = True
        async for status in entries(connection, path):
            empty = False
            if not _is_of_a_key(status.path.rpartition("/")[2]):
                continue
            if status.isdir:
                ahead.append(status)
            else:
                yield status
        if empty and below is not None:
            yield below
        if not ahead:
            return
        below = ahead.pop()
        path = below.path


def _is_of_a_key(name: str) -> bool:
    try:
        check_key(name)
    except UnsafeKey:
        return False
    return True


async def entries(connection: HdfsConnection, directory: str) -> AsyncGenerator[FileStatus, None]:
    """Yield the files and directories in ``directory``: none if it is absent, and the file itself if it is a file."""
    try:
        found, batch = await connection.ask("list the blobs", partial(_begun, directory))
        while batch:
            for status in batch:
                yield status
            # A failed batch is not read again: after an error the iterator ends as if the listing were complete.
            batch = await connection.read("list the blobs", partial(_next_batch, found))
    except PathMissing:
        return


def _begun(directory: str, client: Client) -> tuple[Iterator[FileStatus], list[FileStatus]]:
    found = client.list_status(directory)
    return found, _next_batch(found)


def _next_batch(found: Iterator[FileStatus]) -> list[FileStatus]:
    return list(islice(found, _LISTED_AT_ONCE))


async def clear_up(connection: HdfsConnection, clock: NameNodeClock, after: float = ABANDONED_AFTER_SECONDS) -> None:
    """Delete temporary files and small test files that are at least ``after`` seconds old: their writers are dead."""
    for directory, beginning in ((connection.uploading, ""), (connection.root, _PROBE)):
        try:
            async for status in entries(connection, directory):
                name = status.path.rpartition("/")[2]
                if not status.isdir and name.startswith(beginning) and clock.age(status) >= after:
                    await connection.delete(status.path)
        except BackendError as error:
            log.warning("cannot delete abandoned files in %s, and try again later: %s", directory, error)


async def remove_empty(connection: HdfsConnection, path: str) -> None:
    """Remove the directory at ``path`` if it is empty. A put that needs the directory makes it again."""
    try:
        await connection.delete(path)
    except DirectoryNotEmpty:
        return
    except BackendError as error:
        log.warning("cannot remove the empty directory %s, and try again later: %s", path, error)
