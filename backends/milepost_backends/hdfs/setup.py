"""Prepares a directory of HDFS for blobs when the store is opened, and reads the NameNode's time."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from milepost_backends.contract import BackendError, Misconfigured, StorageFull
from milepost_backends.hdfs.connection import HdfsConnection
from milepost_backends.hdfs.errors import PathExists, PathMissing
from milepost_backends.hdfs.listing import ABANDONED_AFTER_SECONDS, PROBE, NameNodeClock, clear_up

log = logging.getLogger(__name__)

_CONTENT = b"milepost"


async def prepare(connection: HdfsConnection, abandoned_after: float = ABANDONED_AFTER_SECONDS) -> NameNodeClock:
    """Make the root, prove that it is usable, and delete unfinished files of dead writers.

    Raises `Misconfigured`, `StorageUnavailable`.
    """
    clock = NameNodeClock(round(time.time() * 1000))  # this machine's time, in case a quota forbids even an empty file
    try:
        await _make_root(connection)
        clock = await _read_clock(connection)
        await _try_out(connection)
    except StorageFull as error:
        log.warning("HDFS has no room, so the blob store opens for reading and deleting only: %s", error)
    await clear_up(connection, clock, abandoned_after)
    return clock


async def _make_root(connection: HdfsConnection) -> None:
    """Make the missing directories. Each is checked first: an existing one needs no right to make it."""
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
    """Read the NameNode's time from an empty file that the NameNode dates."""
    async with _probe(connection) as path:
        writer = await connection.create(path, set_up=True)
        await connection.write(f"write to {connection.root}", writer.close, set_up=True)
        return NameNodeClock((await connection.status(path, set_up=True)).modification_time)


async def _try_out(connection: HdfsConnection) -> None:
    """Write, rename, read and delete a small file, as a put, a get and a delete will."""
    doing = f"work in {connection.root}"
    async with _probe(connection) as written, _probe(connection, connection.root) as moved:
        writer = await connection.create(written, set_up=True)
        await connection.write(doing, partial(writer.write, _CONTENT), set_up=True)
        await connection.write(doing, writer.close, set_up=True)
        await connection.rename(written, moved, set_up=True)
        reader = await connection.ask(doing, lambda client: client.read(moved), set_up=True)
        if await connection.read(doing, reader.read, set_up=True) != _CONTENT:
            raise Misconfigured(f"a file written to {connection.root} does not read back the same")


@asynccontextmanager
async def _probe(connection: HdfsConnection, directory: str | None = None) -> AsyncIterator[str]:
    """Provide a name for a small file, which is deleted in the end, or cleared up later if that fails."""
    path = f"{directory or connection.uploading}/{PROBE}{uuid.uuid4().hex}"
    try:
        yield path
    finally:
        try:
            await connection.delete(path)
        except BackendError as error:
            log.warning("cannot delete the small file %s of a trial, which is cleared up later: %s", path, error)
