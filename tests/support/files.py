"""Put and read files of a replica in this process, as a data node does it."""

from __future__ import annotations

import hashlib
from contextlib import suppress

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from milepost_backends.contract import BackendError
from milepost_server.basics.pieces import stream_of
from milepost_server.basics.problems import problem
from milepost_server.blobs.deletion_queue import delete_with_list
from milepost_server.blobs.delivery import blob_ref, deliver
from milepost_server.blobs.intake import Incoming, begin, take_in
from milepost_server.blobs.keys import file_key
from milepost_server.model.requests.base import BlobRef
from milepost_server.operations.operations import Operations
from milepost_server.operations.trees import At
from milepost_server.replica.replica import Replica
from tests.service.acting import STORE
from tests.support.servers.replicas import Rig


async def put(
    running: Rig,
    path: str,
    epoch: int,
    content: bytes = b"bytes",
    *,
    inline: bool = False,
    overwrite: bool = True,
    key: str = "",
    attempt: int = 1,
) -> None:
    """Put a file: as a blob, or with its bytes in the record. Raises problems."""
    await put_at(
        running.replica,
        running.operations,
        At(STORE, path),
        epoch,
        content,
        overwrite=overwrite,
        key=key or hashlib.sha256(path.encode() + content).hexdigest(),
        attempt=attempt,
        inline_below=len(content) + 1 if inline else 0,
    )


async def put_at(
    replica: Replica,
    operations: Operations,
    at: At,
    epoch: int | None,
    content: bytes,
    *,
    overwrite: bool,
    key: str,
    attempt: int = 1,
    inline_below: int | None = None,
) -> None:
    """Put a file through a replica that leads; ``inline_below``: as its settings say, unless given. Raises problems."""
    most = replica.settings.inline_below if inline_below is None else inline_below
    begun = await begin(Incoming(stream_of(content)), most, None)
    if begun.data is not None:
        blob = BlobRef("", len(content), begun.sha256)
    else:
        fresh = file_key(replica.journal.deployment, at.store, replica.journal.term)
        blob = await take_in(replica.blobs, fresh, begun.rest, None)
    publish = operations.publisher.publish
    try:
        ended = await publish(at, epoch, blob, begun.data, overwrite=overwrite, key=key, attempt=attempt)
    except Problem as error:
        if blob.key and error.outcome is Outcome.NOT_APPLIED:
            with suppress(BackendError):  # then it is left to the collector
                await delete_with_list(replica.blobs, blob.key)
        raise
    if isinstance(ended, int):
        raise problem(Code.NO_LEADER, "another leadership has begun since the bytes were put")


async def read(running: Rig, path: str) -> bytes:
    """Read a file. Raises problems, and what a cut delivery raises."""
    await running.operations.trees.ready(STORE)
    return await read_at(running.replica, running.operations, At(STORE, path))


async def read_at(replica: Replica, operations: Operations, at: At) -> bytes:
    """Read a file through a replica that leads. Raises problems, and what a cut delivery raises."""
    entry = operations.trees.readable(at)
    if not entry.has_own_blob:
        return await operations.trees.bytes_of_small(entry)
    stream = await deliver(replica.blobs, blob_ref(entry))
    return b"".join([chunk async for chunk in stream])
