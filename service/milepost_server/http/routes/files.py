"""The routes of ``/v1/stores/{store}/files``: the files of a job, for clients that do not speak WebHDFS."""

from __future__ import annotations

from datetime import datetime
from email.utils import format_datetime

from fastapi import APIRouter
from starlette.responses import Response

from milepost.operations.files import DELETE_FILE, LIST_FILES, LOOK_AT_FILE, READ_FILE, WRITE_FILE
from milepost.wire import STATE_MEDIA_TYPE, Code, Header, digest_header, quote_version
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import epoch_under
from milepost_server.http.bodies import no_fields, state_of
from milepost_server.http.headers import (
    accepts,
    caller_without_session,
    check_without,
    checked_name,
    creates_only,
    if_match,
)
from milepost_server.http.openapi.documents import answers
from milepost_server.http.queries import flag, named_path, only_known, page_of, to_token
from milepost_server.http.replies import (
    about,
    bytes_reply,
    empty_reply,
    json_response,
    range_header,
    reply_headers,
    requested_span,
)
from milepost_server.http.requests import HttpRequest
from milepost_server.model.trees import Entry
from milepost_server.operations.files import FoundFile
from milepost_server.operations.states import Span
from milepost_server.operations.trees import At
from milepost_server.replica.submitter import Caller, Reply
from milepost_server.rules.answers import file_version
from milepost_server.rules.decisions import Answer

router = APIRouter(tags=["files"])

_SHA256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
_WRITTEN = {"path": "output/part-7", "size": 5, "sha256": _SHA256, "version": "42.2cf24dba5fb0a30e"}
_LISTED = {**_WRITTEN, "directory": False, "modified": "2026-01-31T12:00:00.000Z", "epoch": 3}
_BODY = {
    "description": "The file's bytes.",
    "required": False,
    "content": {STATE_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
}


@answers(
    router,
    LIST_FILES,
    {
        200: (
            "A page, by name.",
            {"files": [_LISTED], "next": "cGFydC03", "now": "2026-01-31T12:00:07.000Z"},
        )
    },
)
async def list_files(request: HttpRequest, store: str) -> Response:
    """Return a page of the direct entries of a directory, files and directories, with the service's time.

    A snapshot is the directory `.snapshot/{name}`, which no other listing shows.
    """
    after, limit = page_of(request, LIST_FILES)
    at = await _at(request, store, request.query_params.get("under", ""), root=True)
    accepts(request, "application/json")
    page = await request.operations.trees.page(at, after, limit)
    body = {"files": page.files, "next": to_token(page.next), "now": page.now}
    return json_response(body, 200, about(page.revision, page.term))


@answers(router, LOOK_AT_FILE, {200: ("It is there.", None)})
async def look(request: HttpRequest, store: str, path: str) -> Response:
    """Return the headers of a file, as a `GET` would, without the bytes. A directory does not count as a file."""
    at = await _at(request, store, path)
    accepts(request, STATE_MEDIA_TYPE)
    only_known(request, LOOK_AT_FILE)
    found = request.operations.files.find(at, if_match(request))
    return Response(headers={**_headers(found), "Content-Length": str(found.entry.size)}, media_type=STATE_MEDIA_TYPE)


@answers(router, READ_FILE, {200: ("The bytes.", b""), 206: ("A range of them.", b"")})
async def read(request: HttpRequest, store: str, path: str) -> Response:
    """Return the bytes of a file, all or a range; damaged bytes are never delivered completely."""
    at = await _at(request, store, path)
    accepts(request, STATE_MEDIA_TYPE)
    only_known(request, READ_FILE)
    asked = range_header(request)

    def span_of(entry: Entry) -> Span:
        return requested_span(asked, entry.size) or Span(0, entry.size)

    delivery = await request.operations.files.read(at, if_match(request), span_of)
    return bytes_reply(delivery.chunks, asked, delivery.found.entry.size, delivery.span, _headers(delivery.found))


@answers(
    router,
    WRITE_FILE,
    {201: ("The file is there, whole.", _WRITTEN), 200: ("In the place of the one before.", _WRITTEN)},
    body=_BODY,
)
async def write(request: HttpRequest, store: str, path: str) -> Response:
    """Write a file, once and whole, under the current epoch of the store, with its missing parent directories.

    With `If-None-Match: *` the path must be free; otherwise an existing file is replaced. No session is needed.
    """
    at = await _at(request, store, path)
    only_known(request, WRITE_FILE)
    acting, only_new = _acting(request, store), creates_only(request)
    attempt, trees = acting.attempt, request.operations.trees
    if flag(request, "directory"):
        check_without(request, "if-none-match", "a directory that is there already is no conflict")
        await no_fields(request)
        made = await trees.make_directory_once(at, acting.epoch, attempt)
        headers, body = reply_headers(made), {"path": at.path, "directory": True}
        return json_response(body, 201 if made.answer.created else 200, headers)
    request.operations.publisher.check_put(at, acting.epoch, attempt, overwrite=not only_new)
    blob, published = await request.context.data_nodes.take(
        at, acting.epoch, state_of(request), overwrite=not only_new, key=attempt.key, tries=attempt.number - 1
    )
    version = file_version(published.version, blob.sha256)
    reply = Reply(Answer({}, version, replayed=published.replayed), published.revision or 0, published.by_term)
    headers = {**reply_headers(reply), Header.REPR_DIGEST: digest_header(blob.sha256)}
    body = {"path": at.path, "size": blob.size, "sha256": blob.sha256, "version": version}
    return json_response(body, 201 if published.created else 200, headers)


@answers(router, DELETE_FILE, {204: ("It is not there any more.", None)})
async def delete(request: HttpRequest, store: str, path: str) -> Response:
    """Delete a file or a directory, under the current epoch of the store. A missing path is no error."""
    at = await _at(request, store, path)
    only_known(request, DELETE_FILE)
    acting = _acting(request, store)
    recursive = flag(request, "recursive")
    return empty_reply(
        await request.operations.trees.delete_once(at, acting.epoch, acting.attempt, recursive=recursive)
    )


async def _at(request: HttpRequest, store: str, path: str, *, root: bool = False) -> At:
    """Return the place of ``path`` in the tree of ``store``, once that tree is loaded. ``root`` is whether the path may
    be the root of the tree.

    Raises an ``invalid-name`` problem for a path that no file can have, and the problem for which the tree cannot be
    loaded.
    """
    at = At(checked_name(store, "store"), named_path(path))
    if path.endswith("/") or not (at.path or root):
        raise problem(Code.INVALID_NAME, f"{path[:80]!r} is no path of a file")
    await request.operations.trees.ready(store)
    return at


def _acting(request: HttpRequest, store: str) -> Caller:
    check_without(request, "if-match", "it writes and deletes whatever is at the path")
    acting = caller_without_session(request)
    return Caller(acting.attempt, epoch_under(request, store, acting.epoch))


def _headers(found: FoundFile) -> dict[str, str]:
    modified = datetime.fromisoformat(found.entry.modified)
    return {
        **about(found.revision, found.term),
        Header.ETAG: quote_version(found.version),
        Header.REPR_DIGEST: digest_header(found.entry.sha256),
        Header.LAST_MODIFIED: format_datetime(modified, usegmt=True),
    }
