"""Lists the files below a directory of HDFS, and deletes those that no writer has touched for long."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from itertools import islice
from typing import Final

from hdfs_native import Client, FileStatus

from milepost_backends.contract import BackendError, UnsafeKey, check_key
from milepost_backends.hdfs.connection import HdfsConnection
from milepost_backends.hdfs.errors import DirectoryNotEmpty, PathMissing

log = logging.getLogger(__name__)

# The age of an unfinished file counts from its beginning, so this must be longer than a put may take. A put that takes
# longer anyway fails, and leaves nothing behind.
ABANDONED_AFTER_SECONDS: Final = 86400.0
PROBE: Final = ".probe-"
_LISTED_AT_ONCE: Final = 500


class NameNodeClock:
    """The NameNode's time: its wall clock is read once, and then continued by this machine's monotonic clock."""

    def __init__(self, milliseconds: int) -> None:
        self._read = milliseconds / 1000
        self._at = time.monotonic()

    def age(self, status: FileStatus) -> float:
        """Return the seconds since the file was completed, or since the content of the directory last changed."""
        return max(0.0, self._read + time.monotonic() - self._at - status.modification_time / 1000)


async def walk(connection: HdfsConnection, directory: str) -> AsyncGenerator[FileStatus, None]:
    """Yield each file below ``directory``, and each empty directory there.

    It leaves out names that no key has, such as Milepost's own with a leading dot, and files that vanish meanwhile.
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
    """Yield the entries of ``directory``. It may be gone, or be a file, which is then its own only entry."""
    try:
        found, batch = await connection.ask("list the blobs", partial(_begun, directory))
        while batch:
            for status in batch:
                yield status
            # This is not retried after an error: the client's iterator would then end as if it were complete.
            batch = await connection.read("list the blobs", partial(_next_batch, found))
    except PathMissing:
        return


def _begun(directory: str, client: Client) -> tuple[Iterator[FileStatus], list[FileStatus]]:
    found = client.list_status(directory)
    return found, _next_batch(found)


def _next_batch(found: Iterator[FileStatus]) -> list[FileStatus]:
    return list(islice(found, _LISTED_AT_ONCE))


async def clear_up(connection: HdfsConnection, clock: NameNodeClock, after: float = ABANDONED_AFTER_SECONDS) -> None:
    """Delete the temporary files of dead writers and probes that are at least ``after`` seconds old."""
    for directory, beginning in ((connection.uploading, ""), (connection.root, PROBE)):
        try:
            async for status in entries(connection, directory):
                name = status.path.rpartition("/")[2]
                if not status.isdir and name.startswith(beginning) and clock.age(status) >= after:
                    await connection.delete(status.path)
        except BackendError as error:
            log.warning("cannot delete abandoned files in %s, and try again later: %s", directory, error)


async def remove_empty(connection: HdfsConnection, path: str) -> None:
    """Remove a directory if it is empty. A put that needs the directory makes it again."""
    try:
        await connection.delete(path)
    except DirectoryNotEmpty:
        return
    except BackendError as error:
        log.warning("cannot remove the empty directory %s, and try again later: %s", path, error)
