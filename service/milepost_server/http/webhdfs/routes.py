"""The routes of WebHDFS: one for each method; the parameter ``op`` names the operation."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from milepost.errors import Problem
from milepost.operations.files import CHANGE_FILES, DELETE_FILES, READ_FILES, WRITE_FILES
from milepost.operations.operation import Right
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import may_read
from milepost_server.http.bodies import file_of
from milepost_server.http.openapi.documents import plain
from milepost_server.http.openapi.files import (
    DELETE_QUERY,
    DONE,
    READ_EXAMPLES,
    READ_QUERY,
    WRITE_QUERY,
    files_operation,
)
from milepost_server.http.replies import IncrementalResponse
from milepost_server.http.requests import HttpRequest
from milepost_server.http.webhdfs.datanode.data_node import FILE_PATIENCE_SECONDS
from milepost_server.http.webhdfs.datanode.transfer_tokens import PARAMETER, DownloadToken, UploadToken
from milepost_server.http.webhdfs.errors import remote_exception
from milepost_server.http.webhdfs.parameters import (
    JOBS,
    Above,
    allowed,
    destination,
    epoch_of,
    excluded_in,
    flag,
    in_tree,
    is_of_lost_header,
    number,
    of_lost_header,
    onto_existing,
    place_of,
    replaces,
    text,
)
from milepost_server.http.webhdfs.statuses import (
    OWNER,
    SERVER_DEFAULTS,
    Statuses,
    block_locations,
    content_summary,
    file_status,
    file_system_status,
    list_pieces,
    quota_usage,
)
from milepost_server.http.webhdfs.whole_files import is_whole, of_attempt, take
from milepost_server.model.paths import TRASH
from milepost_server.model.requests.trees import OntoExisting
from milepost_server.model.trees import Entry
from milepost_server.operations.trees import At, Summary
from milepost_server.rules.trees.visibility import ROOT

PREFIX = "/webhdfs/v1"
router = APIRouter(tags=["files"])

_BATCH = 1000
"""The most entries of one answer to LISTSTATUS_BATCH, as in HDFS."""

READS: Final = (
    "GETFILESTATUS",
    "GETFILELINKSTATUS",
    "LISTSTATUS",
    "LISTSTATUS_BATCH",
    "GETFILEBLOCKLOCATIONS",
    "OPEN",
    "GETHOMEDIRECTORY",
    "GETSERVERDEFAULTS",
    "GETDELEGATIONTOKEN",
    "GETCONTENTSUMMARY",
    "GETQUOTAUSAGE",
    "GETSTATUS",
    "GETFILECHECKSUM",
    "GETTRASHROOT",
)
WRITES: Final = ("CREATE", "MKDIRS", "RENAME")

_BY_DATA_NODES = frozenset({"OPEN", "CREATE"})
"""The operations that every replica answers as a data node, if the address has an upload or download token."""

_MAKE_SURE = "MKDIRS"
"""The operation that needs no epoch if the directory exists, since it then changes nothing."""

KEPT: Final = ((b"connection", b"keep-alive"), (b"keep-alive", b"timeout=1"))
"""The headers that make Java keep an idle connection for one second instead of five.

Java sends a body over a kept connection without checking that it is still open, and then fails without a retry. A
server that was restarted needs longer than a second to accept connections again, so no kept connection leads to a dead
server. Java obeys the second header only if the first is present.
"""

PLAIN_QUERY: Final = re.compile(rb"[A-Za-z0-9._-]+=[A-Za-z0-9._-]*(?:&[A-Za-z0-9._-]+=[A-Za-z0-9._-]*)*")
"""A query that is the same if it is decoded and encoded again."""

_UNQUOTED: Final = re.compile(r"[A-Za-z0-9._~/-]*")
"""A path that is the same in an address, as most are."""

CLOSING: Final = {"Connection": "close"}
"""The header by which a data node makes the client close its connection."""

Answer = Callable[[HttpRequest, At | Above], Awaitable[Response]]


@plain(
    router,
    READ_FILES,
    **files_operation(
        READS,
        READ_QUERY,
        {200: "What was asked for, or the bytes at the address that a 307 gave."},
        READ_EXAMPLES,
        gives_bytes=True,
    ),
)
async def read(request: HttpRequest, path: str = "") -> Response:
    """Answer operations that change nothing. OPEN is answered with a redirect to a data node, which sends the bytes."""
    return await _answered(request, path, _READS)


@plain(
    router,
    WRITE_FILES,
    **files_operation(
        WRITES,
        WRITE_QUERY,
        {200: "MKDIRS and RENAME: done, or not.", 201: "CREATE: the file is there, whole."},
        {"MKDIRS": DONE, "RENAME": DONE},
        takes_bytes=True,
    ),
)
async def write(request: HttpRequest, path: str = "") -> Response:
    """Answer operations that make or rename files, under the current epoch of the store.

    CREATE is answered with a redirect to a data node, which receives the bytes. With `data=true` the bytes come with
    the request itself, which the leader takes. The file becomes visible after the last byte.
    """
    return await _answered(request, path, _WRITES)


@plain(router, CHANGE_FILES)
async def change(request: HttpRequest, path: str = "") -> Response:
    """Refuse operations that would change existing bytes (APPEND, CONCAT, TRUNCATE): a file is always written
    completely, and never changed.
    """
    return await _answered(request, path, {})


@plain(
    router,
    DELETE_FILES,
    **files_operation(
        ["DELETE"],
        DELETE_QUERY,
        {200: "Whether there was something to delete."},
        {"DELETE": DONE},
        redirects=False,
    ),
)
async def delete(request: HttpRequest, path: str = "") -> Response:
    """Answer operations that delete files, under the current epoch of the store."""
    return await _answered(request, path, {"DELETE": _delete})


async def _answered(request: HttpRequest, path: str, known: Mapping[str, Answer]) -> Response:
    response = await _answer(request, path, known)
    headers = response.raw_headers
    if request.fields.get("connection").lower() != "close" and not any(name == b"connection" for name, _ in headers):
        headers += KEPT
    return response


async def _answer(request: HttpRequest, path: str, known: Mapping[str, Answer]) -> Response:
    place: At | Above | None = None
    try:
        asked = (text(request.query_params, "op") or "").upper()
        if asked not in known:
            raise problem(
                Code.NOT_SUPPORTED, f"{request.method} with op={asked[:40]!r} is not supported{_lost(request)}"
            )
        place = place_of(path)
        looks = request.method == "GET" or asked == _MAKE_SURE
        allowed(request, Right.READ_OF_JOB if looks else Right.WRITE_OF_JOB, place)
        state = request.context.journal.state_if_leading()
        if state is None and not (asked in _BY_DATA_NODES and PARAMETER in request.query_params):
            raise problem(Code.NO_LEADER, "this replica does not lead")
        if state is not None and isinstance(place, At) and state.unloaded(place.store):
            await request.operations.trees.ready(place.store)
        return await known[asked](request, place)
    except Problem as error:
        if isinstance(place, At) and is_of_lost_header(error, request, place):
            error = of_lost_header(error, place)
        return remote_exception(of_attempt(error, request))


def _lost(request: HttpRequest) -> str:
    """Return a hint for the refusal of a request without ``op``: Java may have sent a ``?`` in place of a letter of the
    path, so that the rest of the path was read as the query. Empty if the query has no second ``?``.
    """
    if b"?" not in request.scope["query_string"]:
        return ""
    return ": Java sends '?' for letters that its file.encoding does not have, so start it with -Dfile.encoding=UTF-8"


# -- operations that change nothing ------------------------------------------------------------------------------------


async def _status(request: HttpRequest, place: At | Above) -> Response:
    entry = ROOT if isinstance(place, Above) else request.operations.trees.entry(place)
    return _json({"FileStatus": file_status(entry, "")})


async def _list(request: HttpRequest, place: At | Above) -> Response:
    listed = Statuses()
    await _children(request, place, listed.add, "", None)
    return IncrementalResponse(list_pieces(listed), 200, {}, None)


async def _list_batch(request: HttpRequest, place: At | Above) -> Response:
    listed = Statuses(_BATCH)
    await _children(request, place, listed.add, request.query_params.get("startAfter", ""), _BATCH + 1)
    more = b'},"remainingEntries":%d}}' % (listed.given > _BATCH)
    return IncrementalResponse(
        [b'{"DirectoryListing":{"partialListing":{"FileStatuses":', *listed.pieces(), more], 200, {}, None
    )


async def _blocks(request: HttpRequest, place: At | Above) -> Response:
    entry, query = ROOT if isinstance(place, Above) else request.operations.trees.entry(place), request.query_params
    blocks = block_locations(entry, number(query, "offset") or 0, number(query, "length"))
    return _json({"BlockLocations": {"BlockLocation": blocks}})


async def _children(
    request: HttpRequest, place: At | Above, add: Callable[[str, Entry], object], after: str, most: int | None
) -> None:
    trees = request.operations.trees
    if isinstance(place, At):
        return await trees.each_child(place, add, after, most)
    if place.path and request.job is None:
        return await trees.each_store(lambda name: add(name, ROOT), after, most, partial(may_read, request))
    name = request.job.store if place.path and request.job is not None else JOBS
    if name > after:
        add(name, ROOT)
    return None


async def _open(request: HttpRequest, place: At | Above) -> Response:
    if isinstance(place, Above):
        raise problem(Code.NOT_EXIST, f"/{place.path} is a directory")
    query, data_nodes = request.query_params, request.context.data_nodes
    start, length = number(query, "offset") or 0, number(query, "length")
    if PARAMETER not in query:
        entry = request.operations.trees.readable(place)
        return _to_data_node(request, *await data_nodes.download_token(place, entry, excluded_in(query)))
    token = await data_nodes.token(query[PARAMETER], DownloadToken, place)
    if token.blob:
        size, chunks = await data_nodes.own.give(token, start, length)
        headers = {"Content-Length": str(size), **_closing(request)}
        return StreamingResponse(chunks, 200, headers, "application/octet-stream")
    entry = request.operations.trees.readable(place)
    if entry.has_own_blob or entry.sha256 != token.sha256:  # the file was replaced after the download token was issued
        return _to_data_node(request, *await data_nodes.download_token(place, entry, excluded_in(query)))
    if start > entry.size:
        raise problem(Code.RANGE_NOT_SATISFIABLE, f"{place.path!r} has {entry.size} bytes, and none at {start}")
    data = await request.operations.trees.bytes_of_small(entry)
    return Response(
        data[start : None if length is None else start + length], 200, media_type="application/octet-stream"
    )


async def _home(_request: HttpRequest, _place: At | Above) -> Response:
    return _json({"Path": "/"})


async def _defaults(_request: HttpRequest, _place: At | Above) -> Response:
    return _json({"FsServerDefaults": SERVER_DEFAULTS})


async def _no_token(_request: HttpRequest, _place: At | Above) -> Response:
    """Answer that there is no delegation token. A client whose Hadoop is configured for Kerberos asks for one first."""
    return _json({"Token": None})


async def _summary(request: HttpRequest, place: At | Above) -> Response:
    return _json({"ContentSummary": content_summary(await _counted(request, place))})


async def _quota_usage(request: HttpRequest, place: At | Above) -> Response:
    return _json({"QuotaUsage": quota_usage(await _counted(request, place))})


async def _file_system_status(request: HttpRequest, place: At | Above) -> Response:
    """Answer with the used size of the tree of one job, where HDFS answers with that of the whole file system."""
    used = Summary() if isinstance(place, Above) else await request.operations.trees.summary(At(place.store, ""))
    return _json({"FsStatus": file_system_status(used)})


async def _counted(request: HttpRequest, place: At | Above) -> Summary:
    if isinstance(place, Above):
        asked = request.query_params["op"].upper()
        raise problem(Code.NOT_SUPPORTED, f"{asked} of /{place.path} is not supported: ask for one job, /{JOBS}/…")
    return await request.operations.trees.summary(place)


async def _checksum(request: HttpRequest, place: At | Above) -> Response:
    """Refuse to return a checksum: HDFS computes its checksums from those of blocks, and files here have no blocks."""
    if isinstance(place, Above):
        raise problem(Code.NOT_EXIST, f"/{place.path} is a directory")
    digest = request.operations.trees.readable(place).sha256
    detail = f"GETFILECHECKSUM is not supported: {place.path!r} has no checksum of HDFS's kind. Its sha-256 is {digest}"
    raise problem(Code.NOT_SUPPORTED, detail)


async def _trash_root(_request: HttpRequest, place: At | Above) -> Response:
    """Answer with a trash directory in the job's own tree: moving a file to the trash is a rename, which cannot leave a
    tree.
    """
    above = f"/{JOBS}/{place.store}" if isinstance(place, At) else ""
    return _json({"Path": f"{above}/{TRASH}/{OWNER}"})


# -- operations that change something ----------------------------------------------------------------------------------


async def _create(request: HttpRequest, place: At | Above) -> Response:
    at, query, data_nodes = in_tree(place), request.query_params, request.context.data_nodes
    epoch = epoch_of(request, at)
    if PARAMETER not in query and is_whole(query):
        await take(request, at, epoch)
        return _put(request, at)
    if PARAMETER not in query:
        overwrite, parents = replaces(query), flag(query, "createparent", absent=True)
        begun = request.operations.trees.may_put(at, epoch, overwrite=overwrite, parents=parents)
        put = data_nodes.upload_token(at, epoch, overwrite=overwrite, excluded=excluded_in(query), begun=begun)
        return _to_data_node(request, *await put)
    text = query[PARAMETER]
    token = await data_nodes.token(text, UploadToken, at)
    if token.epoch != epoch:
        raise problem(Code.FORBIDDEN, f"the token in this address is for epoch {token.epoch}, not for {epoch}")
    await data_nodes.own.take(token, text, file_of(request), patience=FILE_PATIENCE_SECONDS)
    return _put(request, at)


def _put(request: HttpRequest, at: At) -> Response:
    return Response(status_code=201, headers={"Location": put_at(at), **_closing(request)})


def put_at(at: At) -> str:
    """Return the address of a file that was put, as WebHDFS tells it."""
    path = at.path if _UNQUOTED.fullmatch(at.path) else quote(at.path)
    return f"webhdfs://milepost/{JOBS}/{at.store}/{path}"


async def _make_directory(request: HttpRequest, place: At | Above) -> Response:
    there = ROOT if isinstance(place, Above) else request.operations.trees.find(place)
    if there is None:
        at = in_tree(place)
        allowed(request, Right.WRITE_OF_JOB, at)
        await request.operations.trees.make_directory(at, epoch_of(request, at))
    elif not there.directory:
        raise problem(Code.ALREADY_EXISTS, "the path is that of a file")
    return _json({"boolean": True})


async def _rename(request: HttpRequest, place: At | Above) -> Response:
    at, query = in_tree(place), request.query_params
    onto, target = onto_existing(query), in_tree(place_of(destination(query)))
    if target.store != at.store:
        raise problem(Code.NOT_SUPPORTED, "a file cannot be renamed from one job's tree to another's")
    renamed = await request.operations.trees.rename(at, target.path, epoch_of(request, at), onto)
    return _json({"boolean": renamed}) if onto is OntoExisting.ANSWER_FALSE else Response()


async def _delete(request: HttpRequest, place: At | Above) -> Response:
    at, recursive = in_tree(place), flag(request.query_params, "recursive")
    deleted = await request.operations.trees.delete(at, epoch_of(request, at), recursive=recursive)
    return _json({"boolean": deleted})


_READS: Mapping[str, Answer] = dict(
    zip(
        READS,
        (
            *(_status, _status, _list, _list_batch, _blocks, _open, _home, _defaults, _no_token),
            *(_summary, _quota_usage, _file_system_status, _checksum, _trash_root),
        ),
        strict=True,
    )
)
_WRITES: Mapping[str, Answer] = dict(zip(WRITES, (_create, _make_directory, _rename), strict=True))


def _json(body: Mapping[str, Any]) -> Response:
    """Return a JSON answer without a Content-Type, which Hadoop's client could not handle (see `remote_exception`)."""
    return Response(msgspec.json.encode(body))


def _to_data_node(request: HttpRequest, data_node: str, token: str) -> Response:
    """Redirect the client to a data node. Hadoop's client sends no body before it is redirected."""
    raw_path, query = request.scope["raw_path"].decode("ascii"), request.scope["query_string"]
    # a token never has a character to encode
    if PLAIN_QUERY.fullmatch(query) and PARAMETER not in request.query_params:
        location = f"{data_node}{raw_path}?{query.decode('ascii')}&{PARAMETER}={token}"
    else:
        kept = [(name, value) for name, value in request.query_params.multi_items() if name != PARAMETER]
        location = f"{data_node}{raw_path}?{urlencode([*kept, (PARAMETER, token)])}"
    if flag(request.query_params, "noredirect"):
        return _json({"Location": location})
    return Response(status_code=307, headers={"Location": location})


def _closing(request: HttpRequest) -> dict[str, str]:
    """Return the header by which a data node makes the client close its connection; none if this replica leads. Java
    sends the next body over a kept connection unchecked, and fails if the data node has died since.
    """
    return {} if request.context.journal.lease_holds() else CLOSING
