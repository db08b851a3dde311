"""What is found out when HDFS blobs are opened."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from backends.contract import BackendError, Misconfigured, StorageFull
from backends.hdfs.connection import HdfsConnection
from backends.hdfs.errors import AlreadyThere, NotThere
from backends.hdfs.listing import ABANDONED_AFTER_SECONDS, PROBE, NameNodeClock, clear_up

log = logging.getLogger(__name__)

_CONTENT = b"milepost"


async def prepare(connection: HdfsConnection, abandoned_after: float = ABANDONED_AFTER_SECONDS) -> NameNodeClock:
    """Make the root, prove that it can be worked in, and delete what writers that died left unfinished.

    Raises `Misconfigured`, `StorageUnavailable`.
    """
    clock = NameNodeClock(round(time.time() * 1000))  # this machine's, should a quota forbid even an empty file
    try:
        await _make_root(connection)
        clock = await _read_clock(connection)
        await _try_out(connection)
    except StorageFull as error:
        log.warning("the blob store opens for reading and deleting: %s", error)
    await clear_up(connection, clock, abandoned_after)
    return clock


async def _make_root(connection: HdfsConnection) -> None:
    """Make what is missing. It is looked at first: where it is there, the right to make it is not needed."""
    for path in (connection.root, connection.uploading):
        try:
            status = await connection.status(path, set_up=True)
        except NotThere:
            try:
                await connection.make_directory(path.rpartition("/")[0] or "/", set_up=True)
                await connection.make_directory(path, private=True, set_up=True)
            except (NotThere, AlreadyThere) as error:
                raise Misconfigured(f"{path} cannot be a directory: {error}") from error
        else:
            if not status.isdir:
                raise Misconfigured(f"{path} is a file")


async def _read_clock(connection: HdfsConnection) -> NameNodeClock:
    """By an empty file, which the NameNode dates."""
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
            raise Misconfigured(f"{connection.root} does not give back what was written to it")


@asynccontextmanager
async def _probe(connection: HdfsConnection, directory: str | None = None) -> AsyncIterator[str]:
    """A name for a small file, which is deleted in the end. One that cannot be is cleared up when it is old."""
    path = f"{directory or connection.uploading}/{PROBE}{uuid.uuid4().hex}"
    try:
        yield path
    finally:
        try:
            await connection.delete(path)
        except BackendError as error:
            log.warning("the file %s may be left: %s", path, error)
