"""Reads the bodies of requests: the bytes of a state or a file as a stream, JSON as a typed structure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect

from milepost.errors import Problem
from milepost.wire import NAME, UPLOAD_MEDIA_TYPE, Code
from milepost_server.basics.pieces import stream_of
from milepost_server.basics.problems import problem
from milepost_server.blobs.intake import Incoming
from milepost_server.http.connection.connections import OpenBody
from milepost_server.http.connection.exchange import exchange_of
from milepost_server.http.connection.slow_peers import LEAST_BYTES_PER_SECOND, PeerTimeBudget
from milepost_server.http.headers import check_without, content_digest, content_length, one
from milepost_server.http.requests import HttpRequest
from milepost_server.operations.uploads import Reference

MOST_JSON_BYTES = 64 * 1024
Body = TypeVar("Body", bound=msgspec.Struct)
Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


def state_of(request: HttpRequest) -> Incoming:
    """Return the body of a request as a stream of bytes, with the size and digest that its headers announce."""
    return _incoming(request, request.context.idle_seconds)


def file_of(request: HttpRequest) -> Incoming:
    """Return the body as `state_of` does, for a request that writes a file. The sender may be silent for longer, since
    a Spark task computes while its file is open.
    """
    return _incoming(request, request.context.file_idle_seconds)


def _incoming(request: HttpRequest, idle_seconds: float) -> Incoming:
    check_without(request, "content-range", "bytes are written whole, and never a part of them")
    size, sha256 = content_length(request), content_digest(request)
    whole = exchange_of(request.scope).take_whole()
    return Incoming(_counted(request, idle_seconds) if whole is None else stream_of(whole), size, sha256)


async def _counted(request: HttpRequest, idle_seconds: float) -> AsyncIterator[bytes]:
    with request.context.connections.body() as body:
        async for chunk in _chunks(request, idle_seconds, body):
            await body.takes(len(chunk))
            yield chunk


async def _chunks(request: HttpRequest, idle_seconds: float, body: OpenBody | None = None) -> AsyncIterator[bytes]:
    loop, stream = asyncio.get_running_loop(), request.stream()
    sender = PeerTimeBudget(idle_seconds)
    try:
        while True:
            if body is not None and body.is_cut:
                raise TimeoutError
            began = loop.time()
            async with asyncio.timeout(sender.left) as patience:
                with nullcontext() if body is None else body.waits(patience):
                    chunk = await anext(stream, None)
            if chunk is None:
                break
            sender.spend(loop.time() - began, len(chunk))
            if chunk:
                yield chunk
    except TimeoutError as error:
        if body is not None and body.is_cut:
            raise problem(
                Code.TOO_MANY_REQUESTS, "nothing of the body came for long, and there was no room for others"
            ) from error
        raise problem(
            Code.INCOMPLETE_BODY,
            "the rest of the body did not arrive in time, or arrived more slowly than"
            f" {LEAST_BYTES_PER_SECOND} bytes a second",
        ) from error
    except ClientDisconnect as error:
        raise problem(Code.INCOMPLETE_BODY, "the connection ended inside the body") from error
    if (cut := exchange_of(request.scope).cut) is not None:
        raise cut


class _Reference(msgspec.Struct, forbid_unknown_fields=True):
    upload: Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}")]
    size: Size
    sha256: Digest


async def state_or_reference(request: HttpRequest) -> Incoming | Reference:
    """Return the state in the body as a stream, or the reference to an upload if the body has the media type of such a
    reference.
    """
    if _media_type(request) != UPLOAD_MEDIA_TYPE:
        return state_of(request)
    reference = _decoded(await gathered(request), _Reference)
    return Reference(reference.upload, reference.size, reference.sha256)


async def json_of(request: HttpRequest, kind: type[Body], *, optional: bool = False) -> Body:
    """Return a JSON body as a structure of ``kind``. If ``optional``, an absent body means the default values of the
    structure.

    Unknown members are refused, and so is a member that appears twice. The body must have the media type of JSON, which
    keeps out web pages: a page can make a browser send a form, plain text or a body without a type to any server, but
    JSON only to a server that allows it.
    """
    if not optional or _media_type(request) is not None or _has_body(request):
        _require_json(request)
    data = await gathered(request)
    return kind() if optional and not data else _decoded(data, kind)


@asynccontextmanager
async def long_json_of(request: HttpRequest, kind: type[Body], most: int) -> AsyncIterator[Body]:
    """Yield a JSON body as `json_of` returns it, for a call whose body may have ``most`` bytes, more than
    `MOST_JSON_BYTES`. Until the block ends, the body counts as an incomplete body, whose memory is limited (see
    `Connections.body`): its bytes stay in memory until then.
    """
    _require_json(request)
    with request.context.connections.body() as body:
        yield _decoded(await gathered(request, most, body), kind)


async def form_of(request: HttpRequest) -> str:
    """Return a form (``application/x-www-form-urlencoded``) as text whose fields are still percent-encoded."""
    media_type = _media_type(request)
    if media_type != "application/x-www-form-urlencoded":
        raise problem(Code.UNSUPPORTED_MEDIA_TYPE, f"this call takes a form, not {(media_type or '')[:60]!r}")
    try:
        return (await gathered(request)).decode("ascii")
    except UnicodeDecodeError as error:
        raise problem(Code.INVALID_REQUEST, "a form is written in ASCII") from error


async def no_fields(request: HttpRequest) -> None:
    """Check the body of a call that has no parameters: it may be absent, empty, or a JSON object without members.

    The media type does not matter. A body of GET or HEAD is ignored, since no standard defines its meaning.
    """
    if request.method in ("GET", "HEAD"):
        return
    if _has_body(request):
        data = await gathered(request)
        if data:
            _decoded(data, _NoFields)


def _require_json(request: HttpRequest) -> None:
    """Raise ``unsupported-media-type`` unless the body has the media type of JSON."""
    media_type = _media_type(request)
    if media_type != "application/json":
        raise problem(Code.UNSUPPORTED_MEDIA_TYPE, f"this call takes application/json, not {(media_type or '')[:60]!r}")


def _has_body(request: HttpRequest) -> bool:
    return bool(content_length(request)) or "transfer-encoding" in request.fields


def _media_type(request: HttpRequest) -> str | None:
    """Return the media type that the request names for its body; None if it names none."""
    content_type = one(request, "Content-Type")
    return None if content_type is None else content_type.partition(";")[0].strip().lower()


class _NoFields(msgspec.Struct, forbid_unknown_fields=True):
    """The type of a JSON object that may have no members."""


async def gathered(request: HttpRequest, most: int = MOST_JSON_BYTES, body: OpenBody | None = None) -> bytes:
    """Return a whole body as bytes, which count as bytes of ``body`` if it is given. Raises a ``too-large`` problem for
    a body of more than ``most`` bytes.
    """
    data = bytearray()
    if body is None and (whole := exchange_of(request.scope).take_whole()) is not None:
        if len(whole) > most:
            raise _too_large(most)
        return whole
    async for chunk in _chunks(request, request.context.idle_seconds, body):
        if body is not None:
            await body.takes(len(chunk))
        data += chunk
        if len(data) > most:
            raise _too_large(most)
    return bytes(data)


def _too_large(most: int) -> Problem:
    return problem(Code.TOO_LARGE, f"a JSON body may have at most {most} bytes here")


def _decoded(data: bytes, kind: type[Body]) -> Body:
    try:
        body = msgspec.json.decode(data, type=kind, strict=True)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise problem(Code.INVALID_REQUEST, f"the body is not what this call takes: {error}") from error
    json.loads(data, object_pairs_hook=_each_once)
    return body


def _each_once(members: list[tuple[str, Any]]) -> None:
    """Refuse a JSON object that has two members with the same name. RFC 8259 does not define which of them counts;
    msgspec would silently take the last.
    """
    names = [name for name, _ in members]
    if len(set(names)) < len(names):
        raise problem(Code.INVALID_REQUEST, "the body has two members of one name")
