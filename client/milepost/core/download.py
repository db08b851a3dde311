"""Downloads: the bytes of a state are verified, and a connection that was cut is resumed where it broke."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from milepost.core.calls import answers
from milepost.core.calls.calls import Caller
from milepost.core.calls.request import Request, if_match
from milepost.core.direct import signed, trouble_with
from milepost.core.effects import Answer, Emit, Lost, Operation, Read
from milepost.errors import ConnectionFailed, MilepostError, StateTruncated
from milepost.wire import Header, parse_digest_header, unquote_version

log = logging.getLogger("milepost")

MAX_RESUMPTIONS = 5  # resumptions in a row that bring no byte
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)$")
_SIZE = re.compile(r"\d{1,18}\Z", re.ASCII)


@dataclass(frozen=True)
class _Start:
    version: str
    size: int
    sha256: str
    url: str | None = field(default=None, repr=False)  # a signed URL, if the bytes come straight from the blob store


def download(caller: Caller, handle: str, version: str | None) -> Operation[None]:
    """Emit the state of the handle at the path ``handle`` in chunks; the first one is empty and comes once an answer
    has begun.

    A connection that is cut is resumed at the byte where it broke, on condition of the same version. The last chunk is
    emitted only after size and digest were verified. The timeout bounds the start and each resumption, not the whole
    download. Raises `NotExist`, `VersionMismatch`, `BlobMissing`, `Corrupt`, `StateTruncated`. The cause of a
    `StateTruncated` is what kept the rest from being read; it has none if the bytes of the service itself are wrong.
    """
    path = f"{handle}/state"
    headers = {} if version is None else if_match(version)
    found = None
    if (yield from _is_for_the_direct_way(caller, handle)):
        found = yield from _straight(caller, path, headers)
    if found is None:
        reply = yield from caller.call(Request("GET", path, _start, headers), stream=True)
        found = reply.answer, reply.value
    answer, start = found
    digest = hashlib.sha256()
    received = 0
    fruitless = 0
    held = b""
    yield Emit(b"")
    while True:
        chunk = yield Read(answer.stream)
        if isinstance(chunk, bytes) and chunk:
            fruitless = 0
            received += len(chunk)
            digest.update(chunk)
            if received > start.size:
                raise _wrong(caller, start, f"the state has {start.size} bytes, but {received} or more were received")
            if held:
                yield Emit(held)
            held = chunk
            continue
        if received == start.size:
            break
        reason = chunk.reason if isinstance(chunk, Lost) else "the answer ended early"
        fruitless += 1
        if fruitless > MAX_RESUMPTIONS:
            detail = f"the state ended after {received} of {start.size} bytes: {reason}"
            raise StateTruncated(detail) from ConnectionFailed(reason)
        log.info("download of a state broke off, resuming at byte %d of %d: %s", received, start.size, reason)
        answer = yield from _resume(caller, path, start, received)
    if digest.hexdigest() != start.sha256:
        raise _wrong(caller, start, f"the {received} bytes received do not match the digest that came with them")
    if held:
        yield Emit(held)


def _wrong(caller: Caller, start: _Start, detail: str) -> StateTruncated:
    """Make the error for bytes that are not the state. If the service itself sent them, the state is damaged.

    For bytes of a blob store that is not certain: something on the way may have answered in its place. So the next read
    goes through the service.
    """
    error = StateTruncated(detail)
    if start.url is not None:
        caller.direct.avoid("the blob store sent bytes that are not the state")
        error.__cause__ = ConnectionFailed("the blob store, or something in front of it, sent other bytes")
    return error


def _start(answer: Answer) -> _Start:
    sha256 = parse_digest_header(answer.headers.get(Header.REPR_DIGEST.lower(), ""))
    size = answer.headers.get("content-length", "")
    if sha256 is None or not _SIZE.match(size):
        raise ValueError("without the size or the digest of the state")
    return _Start(answers.version(answer), int(size), sha256)


def _start_or_place(answer: Answer) -> _Start:
    """Read the start of a state, or the place of its bytes if the service redirects there; then the size is still
    unknown.
    """
    if answer.status != 307:
        return _start(answer)
    sha256 = parse_digest_header(answer.headers.get(Header.REPR_DIGEST.lower(), ""))
    version = unquote_version(answer.headers.get(Header.ETAG.lower(), ""))
    if sha256 is None or version is None:
        raise ValueError("without the digest or the version of the state")
    return _Start(version, 0, sha256, answer.headers[Header.LOCATION.lower()])


def _is_for_the_direct_way(caller: Caller, handle: str) -> Operation[bool]:
    """Decide by the size in the record whether a state is downloaded directly.

    Whether the service signs URLs at all is found out by asking it for the first state.
    """
    if not (caller.direct.open and caller.direct.signs):
        return caller.direct.open
    reply = yield from caller.call(Request("GET", handle, answers.document(answers.handle)))
    return caller.direct.suits(reply.value.size)


def _straight(caller: Caller, path: str, headers: Mapping[str, str]) -> Operation[tuple[Answer, _Start] | None]:
    """Begin the download at the blob store, or at a service that does not sign URLs.

    Returns None if the state should be asked for through the service instead.
    """
    request = Request("GET", f"{path}?redirect=true", _start_or_place, headers, located=True)
    reply = yield from caller.call(request, stream=True)
    place = reply.value
    if place.url is None:
        caller.direct.avoid("the service does not sign downloads", logging.DEBUG)
        return reply.answer, place
    caller.direct.signs = True
    trouble = trouble_with(place.url, caller.replicas.secure)
    if trouble is not None:
        caller.direct.avoid(trouble)
        return None
    answer = yield from _from_blob_store(caller, place.url, 0)
    if answer is None or not _SIZE.match(answer.headers.get("content-length", "")):
        return None
    return answer, replace(place, size=int(answer.headers["content-length"]))


def _from_blob_store(caller: Caller, url: str, received: int) -> Operation[Answer | None]:
    """Ask the blob store for the bytes from ``received`` on.

    Returns None if it does not give them; the service will say why.
    """
    headers = {"Range": f"bytes={received}-"} if received else {}
    for _ in range(2):  # twice: a connection that was kept open may turn out closed
        began, send = caller.clock(), signed("GET", url, headers, None, caller.timeout)
        result = yield send
        if isinstance(result, Answer):
            return result if result.status == (206 if received else 200) else None
        if not caller.direct.worth_another_try(send, result, caller.clock() - began):
            return None
    return None


def _resume(caller: Caller, path: str, start: _Start, received: int) -> Operation[Answer]:
    """Ask for the rest of the same version of the state.

    If the service refuses, the download that was begun cannot be completed.
    """
    if start.url is not None:
        rest = yield from _from_blob_store(caller, start.url, received)
        if rest is not None and _is_rest(rest, start, received):
            return rest

    def rest_of(answer: Answer) -> Answer:
        if not _is_rest(answer, start, received):
            raise ValueError("not the rest that was asked for")
        return answer

    headers = {"Range": f"bytes={received}-", **if_match(start.version)}
    try:
        return (yield from caller.call(Request("GET", path, rest_of, headers), stream=True)).value
    except MilepostError as error:
        raise StateTruncated(
            f"the state ended after {received} of {start.size} bytes; the rest is refused: {error}"
        ) from error


def _is_rest(answer: Answer, start: _Start, received: int) -> bool:
    found = _CONTENT_RANGE.match(answer.headers.get("content-range", ""))
    expected = (str(received), str(start.size - 1), str(start.size))
    return answer.status == 206 and found is not None and found.groups() == expected
