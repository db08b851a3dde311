"""What clients ask of a store's tree, and how a replica is asked: what the routes of WebHDFS do, without HTTP."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.blobs.delivery import DeliveryCut
from milepost_server.model.requests.trees import DeletePath, MakeDirectory, PutFile, RenamePath, TreeRequest
from milepost_server.operations.operations import Operations
from milepost_server.operations.trees import At
from milepost_server.replica.replica import Replica
from tests.support.files import put_at, read_at

DIRECTORY = "directory"
"""What is at the path of a directory, where a file has its digest."""


@dataclass(frozen=True, slots=True)
class TreeLook:
    """A call that changes nothing. ``redirect`` asks, under an epoch, for the way on which a file's bytes are sent."""

    kind: Literal["redirect", "read", "list"]
    store: str
    path: str
    epoch: int | None = None
    overwrite: bool = False


class WholeFile(PutFile, frozen=True, gc=False):
    """A put whose bytes come with the first request, without a redirect."""


async def serve(
    replica: Replica, operations: Operations, ask: TreeRequest | TreeLook, attempt: int, content: bytes
) -> Any:
    """Do what the routes do, and return what they answer. Raises problems."""
    if not replica.journal.lease_holds():
        raise problem(Code.NO_LEADER, "this replica does not lead")
    store = ask.store
    assert store is not None
    at, trees = At(store, ask.path), operations.trees
    await trees.ready(store)
    match ask:
        case TreeLook():
            return await _look(replica, operations, at, ask)
        case PutFile(key=str(key)):
            if isinstance(ask, WholeFile) and attempt == 1:
                begun = trees.begun(at, parents=True)
                operations.publisher.check_put(at, ask.epoch, ask.attempt, overwrite=ask.overwrite, begun=begun)
            return await put_at(
                replica, operations, at, ask.epoch, content, overwrite=ask.overwrite, key=key, attempt=attempt
            )
        case RenamePath():
            return await trees.rename(at, ask.target, ask.epoch, ask.onto)
        case DeletePath():
            return await trees.delete(at, ask.epoch, recursive=ask.recursive)
        case MakeDirectory():
            return await trees.make_directory(at, ask.epoch)
    raise TypeError(f"no operation for {ask}")


async def _look(replica: Replica, operations: Operations, at: At, look: TreeLook) -> Any:
    trees = operations.trees
    if look.kind == "redirect":
        trees.may_put(at, look.epoch, overwrite=look.overwrite, parents=True)
        return None
    if look.kind == "list":
        return tuple([name for name, _ in await trees.children(at)])
    try:
        return hashlib.sha256(await read_at(replica, operations, at)).hexdigest()
    except DeliveryCut as cut:  # the connection ends, and its client asks again
        raise problem(Code.STORAGE_UNAVAILABLE, str(cut)) from cut
