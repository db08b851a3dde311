"""The bytes of a state: verified, and gone on with where a connection was cut."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from milepost.core import answers
from milepost.core.calls import Caller
from milepost.core.direct import signed, trouble_with
from milepost.core.effects import Answer, Emit, Lost, Operation, Read
from milepost.core.request import Request, if_match
from milepost.errors import ConnectionFailed, MilepostError, ServerFault, StateTruncated
from milepost.wire import Code, Header, parse_digest_header

log = logging.getLogger("milepost")

MAX_RESUMPTIONS = 5  # in a row, none of which brought a byte
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)$")


@dataclass(frozen=True)
class _Start:
    version: str
    size: int
    sha256: str
    url: str | None = field(default=None, repr=False)  # signed, where the bytes come straight from the blob store


def download(caller: Caller, handle: str, version: str | None) -> Operation[None]:
    """Emits the state of the handle at that path in chunks, an empty one first as soon as an answer has begun.

    A connection that is cut is resumed at the byte where it was, on condition of the same version. The last chunk is
    given out only after size and digest agreed. The timeout bounds the start and each resumption, not the whole.
    Raises `NotExist`, `VersionMismatch`, `BlobMissing`, `Corrupt`, `StateTruncated`; the latter with what stood in the
    way as its cause, and with none where the bytes themselves are wrong.
    """
    path = f"{handle}/state"
    headers = {} if version is None else if_match(version)
    found = None
    if (yield from _is_for_the_direct_way(caller, handle)):
        found = yield from _straight(caller, path, headers)
    if found is None:
        reply = yield from caller.call(Request("GET", path, headers), stream=True)
        found = reply.answer, _start(reply.answer)
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
                raise StateTruncated(f"{received} bytes and more came of a state of {start.size}")
            if held:
                yield Emit(held)
            held = chunk
            continue
        if received == start.size:
            break
        reason = chunk.reason if isinstance(chunk, Lost) else "the answer ended early"
        fruitless += 1
        if fruitless > MAX_RESUMPTIONS:
            detail = f"{received} of {start.size} bytes came, and then no more: {reason}"
            raise StateTruncated(detail) from ConnectionFailed(reason)
        log.info("resuming a state at byte %d of %d: %s", received, start.size, reason)
        answer = yield from _resume(caller, path, start, received)
    if digest.hexdigest() != start.sha256:
        raise StateTruncated(f"the {received} bytes that came do not match the digest that came with them")
    if held:
        yield Emit(held)


def _start(answer: Answer) -> _Start:
    sha256 = parse_digest_header(answer.headers.get(Header.REPR_DIGEST.lower(), ""))
    size = answer.headers.get("content-length", "")
    if answer.status != 200 or sha256 is None or not size.isdecimal():
        raise ServerFault(Code.INTERNAL, f"status {answer.status} without the size or the digest of the state")
    return _Start(answers.version(answer), int(size), sha256)


def _is_for_the_direct_way(caller: Caller, handle: str) -> Operation[bool]:
    """By the size in the record. Whether the service signs at all is found out by asking it for the first state."""
    if not (caller.direct.open and caller.direct.signs):
        return caller.direct.open
    reply = yield from caller.call(Request("GET", handle))
    return caller.direct.suits(answers.read(reply.answer, answers.handle, changed=False).size)


def _straight(caller: Caller, path: str, headers: Mapping[str, str]) -> Operation[tuple[Answer, _Start] | None]:
    """The state from the blob store, or from a service that does not sign; None: better ask the service for it."""
    reply = yield from caller.call(Request("GET", f"{path}?redirect=true", headers, located=True), stream=True)
    told = reply.answer
    if told.status != 307:
        caller.direct.avoid("it does not sign downloads", logging.DEBUG)
        return told, _start(told)
    caller.direct.signs = True
    url, sha256 = told.headers[Header.LOCATION.lower()], parse_digest_header(told.headers[Header.REPR_DIGEST.lower()])
    trouble = trouble_with(url, caller.replicas.secure)
    if trouble is not None:
        caller.direct.avoid(trouble)
        return None
    answer = yield from _from_blob_store(caller, url, 0)
    if answer is None or sha256 is None or not answer.headers.get("content-length", "").isdecimal():
        return None
    return answer, _Start(answers.version(told), int(answer.headers["content-length"]), sha256, url)


def _from_blob_store(caller: Caller, url: str, received: int) -> Operation[Answer | None]:
    """The bytes from ``received`` on; None where the blob store does not give them: the service knows why."""
    headers = {"Range": f"bytes={received}-"} if received else {}
    for _ in range(2):  # a connection that was kept open may turn out closed
        began, send = caller.clock(), signed("GET", url, headers, None, caller.timeout)
        result = yield send
        if isinstance(result, Answer):
            return result if result.status == (206 if received else 200) else None
        if not caller.direct.worth_another_try(send, result, caller.clock() - began):
            return None
    return None


def _resume(caller: Caller, path: str, start: _Start, received: int) -> Operation[Answer]:
    """Ask for the rest of the same version. If the service refuses it, the state that was begun cannot be completed."""
    if start.url is not None:
        rest = yield from _from_blob_store(caller, start.url, received)
        if rest is not None and _is_rest(rest, start, received):
            return rest
    headers = {"Range": f"bytes={received}-", **if_match(start.version)}
    try:
        reply = yield from caller.call(Request("GET", path, headers), stream=True)
    except MilepostError as error:
        raise StateTruncated(f"{received} of {start.size} bytes came; the rest is refused: {error}") from error
    if not _is_rest(reply.answer, start, received):
        raise StateTruncated(f"{received} of {start.size} bytes came; the rest was asked for and something else came")
    return reply.answer


def _is_rest(answer: Answer, start: _Start, received: int) -> bool:
    found = _CONTENT_RANGE.match(answer.headers.get("content-range", ""))
    expected = (str(received), str(start.size - 1), str(start.size))
    return answer.status == 206 and found is not None and found.groups() == expected
