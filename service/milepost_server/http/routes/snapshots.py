"""The routes of ``/v1/stores/{store}/tree``: the snapshots and savepoints of the files of a job."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.files import CLONE_TREE, DROP_SAVEPOINT, GET_SNAPSHOTS, MAKE_SAVEPOINT, ROLL_BACK, VERIFY_TREE
from milepost.operations.operation import Right
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import may, require
from milepost_server.http.bodies import json_of
from milepost_server.http.headers import accepts, caller, checked_name
from milepost_server.http.openapi.documents import answers, json_body
from milepost_server.http.replies import empty_reply, json_reply
from milepost_server.http.requests import HttpRequest
from milepost_server.model.paths import MOST_BYTES, checked_path
from milepost_server.model.requests.trees import DropSavepoint, MakeSavepoint
from milepost_server.model.trees import MOST_KEPT_PATHS

router = APIRouter(tags=["trees"])

_SNAPSHOT = {"directory": "checkpoint", "batch": 7, "revision": 42}
_KEPT = {**_SNAPSHOT, "taken": "2026-01-01T12:00:00.000Z", "epoch": 3}
_REVISION = {"type": "integer", "minimum": 0}
_PATHS = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": MOST_BYTES},
    "maxItems": MOST_KEPT_PATHS,
}


class VerificationBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of a request to verify a tree."""

    digests: bool = False


class RevisionBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that names a snapshot by its revision."""

    revision: int = msgspec.field(default=0)


class CloneBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that names a snapshot of another store's tree."""

    source: str
    snapshot: str


class RollbackBody(RevisionBody, forbid_unknown_fields=True):
    """The JSON body that names a snapshot to roll back to, and paths that stay unchanged."""

    keep: tuple[Annotated[str, msgspec.Meta(max_length=MOST_BYTES)], ...] = ()


@answers(
    router,
    GET_SNAPSHOTS,
    {
        200: (
            "Oldest first.",
            {"snapshots": [_KEPT], "savepoints": [{"name": "before-upgrade", **_KEPT}], "passedOver": []},
        )
    },
)
async def kept(request: HttpRequest, store: str) -> Response:
    """Return the kept snapshots, the last ten of each query, the savepoints, and the snapshots that rollbacks passed
    over.
    """
    checked_name(store, "store")
    accepts(request, "application/json")
    return json_reply(await request.operations.snapshots.kept(store))


@answers(
    router,
    VERIFY_TREE,
    {
        200: (
            "What is there, and what is damaged (the first hundred files by name).",
            {
                "files": 120,
                "bytes": 4096,
                "intact": True,
                "damaged": [],
                "damagedCount": 0,
                "snapshots": [{**_KEPT, "intact": True}],
                "savepoints": [],
                "passedOver": [],
            },
        )
    },
    body=json_body({"digests": False}, {"digests": {"type": "boolean"}}, []),
)
async def verify(request: HttpRequest, store: str) -> Response:
    """Check that the bytes of every file exist, now and at each snapshot and savepoint.

    Sizes are compared; with `digests`, all files are read, and compared with their digests.
    """
    checked_name(store, "store")
    body = await json_of(request, VerificationBody, optional=True)
    return json_reply(await request.operations.snapshots.verify(store, digests=body.digests))


@answers(
    router,
    ROLL_BACK,
    {200: ("The files are those of the snapshot again.", {"revision": 42})},
    body=json_body(
        {"revision": 42, "keep": ["checkpoint/sources"]}, {"revision": _REVISION, "keep": _PATHS}, ["revision"]
    ),
)
async def roll_back(request: HttpRequest, store: str) -> Response:
    """Roll the files back to `revision`, that of a snapshot or of a savepoint, under the store's current epoch.

    The paths in `keep`, at most sixteen, and everything below them stay unchanged. Later snapshots and the present
    files are passed over: each is kept as a snapshot until the query has made ten new snapshots, and going back to it
    undoes the rollback. The query of the job must not be running. If the service uses tokens, the session must hold the
    epoch, unless an administrator asks.
    """
    checked_name(store, "store")
    body = await json_of(request, RollbackBody)
    keep, acting = _kept_paths(body.keep), caller(request)
    request.detail = f"to revision {body.revision}"
    if not may(request, Right.ADMIN):
        request.operations.epochs.held(acting, store)
    return json_reply(await request.operations.snapshots.roll_back(acting, store, body.revision, keep))


def _kept_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    try:
        checked = tuple(checked_path(path) for path in paths)
    except ValueError as error:
        raise problem(Code.INVALID_REQUEST, str(error)) from error
    if len(checked) > MOST_KEPT_PATHS or "" in checked:
        raise problem(Code.INVALID_REQUEST, f"keep names at most {MOST_KEPT_PATHS} paths, and not that of the tree")
    return checked


@answers(
    router,
    CLONE_TREE,
    {201: ("The files of the snapshot are there, as copies.", {"files": 120, "bytes": 4096})},
    body=json_body(
        {"source": "flights", "snapshot": "before-upgrade"},
        {"source": {"type": "string"}, "snapshot": {"type": "string"}},
        ["source", "snapshot"],
    ),
)
async def clone(request: HttpRequest, store: str) -> Response:
    """Fill the empty tree of this store with copies of the files in a snapshot of another store.

    A snapshot is named by a savepoint, or by `@` and the revision of a snapshot. Make a savepoint first: any other
    snapshot may be dropped while it is copied. The client needs the right to read the source.
    """
    checked_name(store, "store")
    body = await json_of(request, CloneBody)
    checked_name(body.source, "source")
    request.detail = f"from {body.source} at {body.snapshot}"
    require(request, Right.READ, body.source)
    reply = await request.operations.snapshots.clone(caller(request), store, body.source, body.snapshot)
    return json_reply(reply, 201)


@answers(
    router,
    MAKE_SAVEPOINT,
    {200: ("It stays until it is dropped.", {"revision": 42})},
    body=json_body({"revision": 42}, {"revision": _REVISION}, []),
)
async def savepoint(request: HttpRequest, store: str, savepoint: str) -> Response:
    """Keep the snapshot at `revision`, or the newest if that is 0 or absent, under a name: a savepoint."""
    checked_name(store, "store")
    checked_name(savepoint, "savepoint")
    body = await json_of(request, RevisionBody, optional=True)
    return json_reply(
        await request.operations.perform(MakeSavepoint(caller(request).attempt, store, savepoint, body.revision))
    )


@answers(router, DROP_SAVEPOINT, {204: ("What only this savepoint kept is dropped in the background.", None)})
async def drop_savepoint(request: HttpRequest, store: str, savepoint: str) -> Response:
    """Drop a savepoint."""
    checked_name(store, "store")
    checked_name(savepoint, "savepoint")
    return empty_reply(await request.operations.perform(DropSavepoint(caller(request).attempt, store, savepoint)))
