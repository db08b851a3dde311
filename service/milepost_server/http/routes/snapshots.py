"""The routes of ``/v1/stores/{store}/tree``: the snapshots and savepoints of the files of a job."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.files import CLONE_TREE, DROP_SAVEPOINT, GET_SNAPSHOTS, MAKE_SAVEPOINT, ROLL_BACK, VERIFY_TREE
from milepost.operations.operation import Right
from milepost.wire import MAX_LABEL_VALUE, MAX_LABELS, MAX_REPLACED_BYTES, Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import may, require
from milepost_server.http.bodies import MOST_JSON_BYTES, json_of, long_json_of
from milepost_server.http.headers import accepts, caller, checked_labels, checked_name
from milepost_server.http.openapi.documents import answers, json_body, json_schema
from milepost_server.http.openapi.schemas import NAME_SCHEMA
from milepost_server.http.replies import empty_reply, json_reply
from milepost_server.http.requests import HttpRequest
from milepost_server.model.paths import MOST_BYTES, checked_path
from milepost_server.model.requests.trees import DropSavepoint, MakeSavepoint
from milepost_server.model.trees import MOST_KEPT_PATHS
from milepost_server.operations.cloning import CloneSource, NewHandle
from milepost_server.operations.snapshots import Replacement

router = APIRouter(tags=["trees"])

_SNAPSHOT = {"directory": "checkpoint", "batch": 7, "revision": 42}
_KEPT = {**_SNAPSHOT, "taken": "2026-01-01T12:00:00.000Z", "epoch": 3}
_REVISION = {"type": "integer", "minimum": 0}
_PATHS = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": MOST_BYTES},
    "maxItems": MOST_KEPT_PATHS,
}


_MOST_VERSION_CHARACTERS = 128
_MOST_BASE64_CHARACTERS = (MAX_REPLACED_BYTES + 2) // 3 * 4
_MOST_ROLLBACK_BYTES = _MOST_BASE64_CHARACTERS + MOST_JSON_BYTES
"""The most bytes in the JSON body of a rollback: the state in base64, and as many bytes for the rest as any JSON body
may have.
"""
_BASE64: dict[str, Any] = {"type": "string", "format": "byte", "maxLength": _MOST_BASE64_CHARACTERS}
_LABELS: dict[str, Any] = {
    "type": "object",
    "maxProperties": MAX_LABELS,
    "additionalProperties": {"type": "string", "maxLength": MAX_LABEL_VALUE},
}
_REPLACEMENT: dict[str, Any] = json_schema(
    {
        "name": NAME_SCHEMA,
        "version": {"type": "string", "minLength": 1, "maxLength": _MOST_VERSION_CHARACTERS},
        "state": _BASE64,
        "labels": _LABELS,
    },
    ["name", "version", "state"],
)
_ADDITION: dict[str, Any] = json_schema({"name": NAME_SCHEMA, "state": _BASE64, "labels": _LABELS}, ["name", "state"])
_MOST_WRITTEN = 4
"""The most files of a clone that the request gives other bytes."""
_MOST_CLONE_BYTES = _MOST_ROLLBACK_BYTES + _MOST_BASE64_CHARACTERS
"""The most bytes in the JSON body of a clone: a state and the bytes of files, each in base64, and the rest."""


class VerificationBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of a request to verify a tree."""

    digests: bool = False


class RevisionBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that names a snapshot by its revision."""

    revision: int = msgspec.field(default=0)


class AdditionBody(msgspec.Struct, forbid_unknown_fields=True):
    """The part of a JSON body that adds the handle ``name``. ``state`` is in base64."""

    name: str
    state: str
    labels: dict[str, str] = {}


class CloneBody(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body that names a snapshot of another store's tree, files that have other bytes in the clone, and a
    handle that the same commit adds. ``files`` has the bytes by path, in base64.
    """

    source: str
    snapshot: str
    files: dict[str, str] = {}
    add: AdditionBody | msgspec.UnsetType = msgspec.UNSET


class ReplacementBody(msgspec.Struct, forbid_unknown_fields=True):
    """The part of a JSON body that replaces the state of the handle ``name``. ``state`` is in base64. If ``labels`` is
    absent, the labels of the handle stay.
    """

    name: str
    version: Annotated[str, msgspec.Meta(min_length=1, max_length=_MOST_VERSION_CHARACTERS)]
    state: str
    labels: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class RollbackBody(RevisionBody, forbid_unknown_fields=True):
    """The JSON body that names a snapshot to roll back to, paths that stay unchanged, and a handle whose state is
    replaced in the same commit.
    """

    keep: tuple[Annotated[str, msgspec.Meta(max_length=MOST_BYTES)], ...] = ()
    replace: ReplacementBody | msgspec.UnsetType = msgspec.UNSET


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
    {200: ("The files are those of the snapshot again.", {"revision": 42, "version": "5f0c1e9ab3d2.43"})},
    body=json_body(
        {
            "revision": 42,
            "keep": ["checkpoint/sources"],
            "replace": {"name": "job", "version": "5f0c1e9ab3d2.42", "state": "eyJiYXRjaCI6IDd9"},
        },
        {"revision": _REVISION, "keep": _PATHS, "replace": _REPLACEMENT},
        ["revision"],
    ),
)
async def roll_back(request: HttpRequest, store: str) -> Response:
    """Roll the files back to `revision`, that of a snapshot or of a savepoint, under the store's current epoch.

    The paths in `keep`, at most sixteen, and everything below them stay unchanged. Later snapshots and the present
    files are passed over: each is kept as a snapshot until the query has made ten new snapshots, and going back to it
    undoes the rollback. The query of the job must not be running. If the service uses tokens, the session must hold the
    epoch, unless an administrator asks.

    With `replace`, the same commit replaces the state of a handle, on which the session must hold a lock: either both
    are done, or neither. The answer then has the handle's new `version`.
    """
    checked_name(store, "store")
    async with long_json_of(request, RollbackBody, _MOST_ROLLBACK_BYTES) as body:
        keep, acting = _kept_paths(body.keep), caller(request)
        replacement = None if body.replace is msgspec.UNSET else _replacement(body.replace)
        also = "" if replacement is None else f", and replaces {replacement.name}"
        request.detail = f"to revision {body.revision}{also}"
        if not may(request, Right.ADMIN):
            request.operations.epochs.held(acting, store)
        rolling_back = request.operations.snapshots.roll_back(acting, store, body.revision, keep, replacement)
        return json_reply(await rolling_back)


def _replacement(body: ReplacementBody) -> Replacement:
    checked_name(body.name)
    labels = None if body.labels is msgspec.UNSET else checked_labels(body.labels.items())
    return Replacement(body.name, body.version, _bytes_of(body.state, "the state"), labels)


def _bytes_of(text: str, what: str) -> bytes:
    """Return the bytes in a member of a JSON body, which has them in base64. Raises ``invalid-request`` and
    ``too-large`` problems, which call the bytes ``what``.
    """
    try:
        content = b64decode(text, validate=True)
    except ValueError as error:
        raise problem(Code.INVALID_REQUEST, f"{what} is not base64: {error}") from error
    if b64encode(content) != text.encode():
        raise problem(Code.INVALID_REQUEST, f"{what} is not base64 in its one canonical form")
    if len(content) > MAX_REPLACED_BYTES:
        raise problem(Code.TOO_LARGE, f"{what} in a JSON body may have at most {MAX_REPLACED_BYTES} bytes")
    return content


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
    {
        201: (
            "The files of the snapshot are there, as copies.",
            {"files": 120, "bytes": 4096, "version": "5f0c1e9ab3d2.43"},
        )
    },
    body=json_body(
        {
            "source": "flights",
            "snapshot": "before-upgrade",
            "files": {"checkpoint/metadata": "eyJpZCI6ICJhbm90aGVyIn0="},
            "add": {"name": "job", "state": "eyJiYXRjaCI6IDd9"},
        },
        {
            "source": {"type": "string"},
            "snapshot": {"type": "string"},
            "files": {"type": "object", "maxProperties": _MOST_WRITTEN, "additionalProperties": _BASE64},
            "add": _ADDITION,
        },
        ["source", "snapshot"],
    ),
)
async def clone(request: HttpRequest, store: str) -> Response:
    """Fill the empty tree of this store with copies of the files in a snapshot of another store.

    A snapshot is named by a savepoint, or by `@` and the revision of a snapshot. Make a savepoint first: any other
    snapshot may be dropped while it is copied. The client needs the right to read the source.

    Files of the snapshot that `files` names, at most four, have the bytes given there, in base64, in place of the
    original ones. With `add`, the same commit adds a handle and locks it for the session: either both are done, or
    neither. The answer then has the handle's `version`.
    """
    checked_name(store, "store")
    async with long_json_of(request, CloneBody, _MOST_CLONE_BYTES) as body:
        checked_name(body.source, "source")
        also = "" if body.add is msgspec.UNSET else f", and adds {body.add.name}"
        request.detail = f"from {body.source} at {body.snapshot}{also}"
        require(request, Right.READ, body.source)
        handle = None if body.add is msgspec.UNSET else _addition(body.add)
        source = CloneSource(body.source, body.snapshot, _written(body.files))
        return json_reply(await request.operations.snapshots.clone(caller(request), store, source, handle), 201)


def _addition(body: AdditionBody) -> NewHandle:
    checked_name(body.name)
    return NewHandle(body.name, _bytes_of(body.state, "the state"), checked_labels(body.labels.items()))


def _written(files: dict[str, str]) -> dict[str, bytes]:
    if len(files) > _MOST_WRITTEN:
        raise problem(Code.INVALID_REQUEST, f"files names at most {_MOST_WRITTEN} files")
    try:
        written = {checked_path(path): _bytes_of(content, f"the file {path!r}") for path, content in files.items()}
    except ValueError as error:
        raise problem(Code.INVALID_REQUEST, str(error)) from error
    if len(written) < len(files):
        raise problem(Code.INVALID_REQUEST, "files names a file twice")
    if sum(map(len, written.values())) > MAX_REPLACED_BYTES:
        raise problem(Code.TOO_LARGE, f"the files in a JSON body may have at most {MAX_REPLACED_BYTES} bytes together")
    return written


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
