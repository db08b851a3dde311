"""The bytes of a state: verified, and gone on with where a connection was cut."""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass

from milepost.core import answers
from milepost.core.calls import Caller
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


def download(caller: Caller, path: str, version: str | None) -> Operation[None]:
    """Emits the state at ``path`` in chunks, an empty one first as soon as the service has begun to answer.

    A connection that is cut is resumed at the byte where it was, on condition of the same version. The last chunk is
    given out only after size and digest agreed. The timeout bounds the start and each resumption, not the whole.
    Raises `NotExist`, `VersionMismatch`, `BlobMissing`, `Corrupt`, `StateTruncated`; the latter with what stood in the
    way as its cause, and with none where the bytes themselves are wrong.
    """
    headers = {} if version is None else if_match(version)
    reply = yield from caller.call(Request("GET", path, headers), stream=True)
    answer, start = reply.answer, _start(reply.answer)
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


def _resume(caller: Caller, path: str, start: _Start, received: int) -> Operation[Answer]:
    """Ask for the rest of the same version. Whatever refuses it, the state that was begun cannot be completed."""
    headers = {"Range": f"bytes={received}-", **if_match(start.version)}
    try:
        reply = yield from caller.call(Request("GET", path, headers), stream=True)
    except MilepostError as error:
        raise StateTruncated(f"{received} of {start.size} bytes came; the rest is refused: {error}") from error
    found = _CONTENT_RANGE.match(reply.answer.headers.get("content-range", ""))
    expected = (str(received), str(start.size - 1), str(start.size))
    if reply.answer.status != 206 or found is None or found.groups() != expected:
        raise StateTruncated(f"{received} of {start.size} bytes came; the rest was asked for and something else came")
    return reply.answer
