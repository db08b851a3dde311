"""The operations of WebHDFS that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from starlette.responses import Response, StreamingResponse

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import may_read
from milepost_server.http.replies import IncrementalResponse
from milepost_server.http.requests import HttpRequest
from milepost_server.http.webhdfs.datanode.transfer_tokens import PARAMETER, DownloadToken
from milepost_server.http.webhdfs.parameters import JOBS, Above, excluded_in, number
from milepost_server.http.webhdfs.responses import Answer, closing, json_response, to_data_node
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
from milepost_server.model.paths import TRASH
from milepost_server.model.trees import Entry
from milepost_server.operations.trees import At, Summary
from milepost_server.rules.trees.visibility import ROOT

_BATCH = 1000
"""The most entries of one answer to LISTSTATUS_BATCH, as in HDFS."""


async def _status(request: HttpRequest, place: At | Above) -> Response:
    entry = ROOT if isinstance(place, Above) else request.operations.trees.entry(place)
    return json_response({"FileStatus": file_status(entry, "")})


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
    return json_response({"BlockLocations": {"BlockLocation": blocks}})


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
        return to_data_node(request, *await data_nodes.download_token(place, entry, excluded_in(query)))
    token = await data_nodes.token(query[PARAMETER], DownloadToken, place)
    if token.blob:
        size, chunks = await data_nodes.own.give(token, start, length)
        headers = {"Content-Length": str(size), **closing(request)}
        return StreamingResponse(chunks, 200, headers, "application/octet-stream")
    entry = request.operations.trees.readable(place)
    if entry.has_own_blob or entry.sha256 != token.sha256:  # the file was replaced after the download token was issued
        return to_data_node(request, *await data_nodes.download_token(place, entry, excluded_in(query)))
    if start > entry.size:
        raise problem(Code.RANGE_NOT_SATISFIABLE, f"{place.path!r} has {entry.size} bytes, and none at {start}")
    data = await request.operations.trees.bytes_of_small(entry)
    return Response(
        data[start : None if length is None else start + length], 200, media_type="application/octet-stream"
    )


async def _home(_request: HttpRequest, _place: At | Above) -> Response:
    return json_response({"Path": "/"})


async def _defaults(_request: HttpRequest, _place: At | Above) -> Response:
    return json_response({"FsServerDefaults": SERVER_DEFAULTS})


async def _no_token(_request: HttpRequest, _place: At | Above) -> Response:
    """Answer that there is no delegation token. A client whose Hadoop is configured for Kerberos asks for one first."""
    return json_response({"Token": None})


async def _summary(request: HttpRequest, place: At | Above) -> Response:
    return json_response({"ContentSummary": content_summary(await _counted(request, place))})


async def _quota_usage(request: HttpRequest, place: At | Above) -> Response:
    return json_response({"QuotaUsage": quota_usage(await _counted(request, place))})


async def _file_system_status(request: HttpRequest, place: At | Above) -> Response:
    """Answer with the used size of the tree of one job, where HDFS answers with that of the whole file system."""
    used = Summary() if isinstance(place, Above) else await request.operations.trees.summary(At(place.store, ""))
    return json_response({"FsStatus": file_system_status(used)})


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
    return json_response({"Path": f"{above}/{TRASH}/{OWNER}"})


READS: Final[Mapping[str, Answer]] = {
    "GETFILESTATUS": _status,
    "GETFILELINKSTATUS": _status,
    "LISTSTATUS": _list,
    "LISTSTATUS_BATCH": _list_batch,
    "GETFILEBLOCKLOCATIONS": _blocks,
    "OPEN": _open,
    "GETHOMEDIRECTORY": _home,
    "GETSERVERDEFAULTS": _defaults,
    "GETDELEGATIONTOKEN": _no_token,
    "GETCONTENTSUMMARY": _summary,
    "GETQUOTAUSAGE": _quota_usage,
    "GETSTATUS": _file_system_status,
    "GETFILECHECKSUM": _checksum,
    "GETTRASHROOT": _trash_root,
}
"""What answers each operation by GET, by its name in the parameter ``op``."""
