"""Downloads the bytes of states and files, verifies them, and resumes a broken connection where it broke."""

from __future__ import annotations

import hashlib
import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from milepost.core.calls import answers
from milepost.core.calls.calls import Caller
from milepost.core.calls.request import Request, if_match
from milepost.core.clock import Clock
from milepost.core.direct import log_signed, signed, trouble_with
from milepost.core.effects import Answer, Emit, Lost, Operation, Read
from milepost.core.progress import Progress, Transfer
from milepost.errors import ConnectionFailed, DeadlineExceeded, InvalidRequest, MilepostError, StateTruncated
from milepost.wire import Code, Header, parse_digest_header, unquote_version

log = logging.getLogger("milepost.transfers")

MAX_RESUMPTIONS = 5  # the most resumptions in a row that deliver no byte
_LAST_LOOK = 1.0  # seconds to wait for the end mark of an answer after its last byte, even if the deadline has passed
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)$")
_SIZE = re.compile(r"\d{1,18}\Z", re.ASCII)


@dataclass(frozen=True)
class _Start:
    version: str
    size: int
    sha256: str
    url: str | None = field(default=None, repr=False)  # a signed URL, if the bytes come straight from the blob store
    first: int = 0
    end: int | None = None  # None: the end of the state

    @property
    def until(self) -> int:
        """The offset at which the requested bytes end."""
        return self.size if self.end is None else self.end

    @property
    def whole(self) -> bool:
        """Whether the request covers all bytes of the state, so that the state's digest applies to them."""
        return self.first == 0 and self.until == self.size


def download(
    caller: Caller,
    path: str,
    version: str | None,
    *,
    record: str | None = None,
    start: int = 0,
    length: int | None = None,
    timeout: float | None = None,
    whole: bool = False,
    progress: Progress | None = None,
) -> Operation[None]:
    """Emit the state, or the file of a job, at ``path`` in chunks; the first chunk is empty and comes once an answer
    has begun. ``record`` is the path of the handle's record; with None the bytes are never transferred directly.

    A download resumes a cut connection at the byte where it broke, on condition of the same version. It emits the last
    chunk only after it verified size and digest. A part (``length`` bytes from ``start``; None: the rest) has no
    digest, and is empty behind the end of the file. ``timeout`` (seconds; None is the caller's) bounds the start and
    each resumption or, with ``whole``, the whole download. Raises `NotExist`, `VersionMismatch`, `BlobMissing`,
    `Corrupt`, `StateTruncated`, and the exceptions of ``progress``. The cause of a `StateTruncated` is the error that
    prevented reading the rest; it has no cause if the service itself sent wrong bytes.
    """
    headers = {} if version is None else if_match(version)
    patience = _Patience(caller.timeout if timeout is None else timeout, whole, caller.clock)
    begun = None
    if record is not None and (yield from _is_for_the_direct_way(caller, record, patience)):
        begun = yield from _straight(caller, path, headers, patience)
    if begun is None:
        begun = yield from _begun(caller, path, headers, patience, start, length)
    answer, found = begun
    digest = hashlib.sha256()
    received = found.first
    fruitless = 0
    held = b""
    transfer = Transfer(progress, caller.clock)
    transfer.begin(found.until - found.first)
    yield Emit(b"")
    while True:
        if received < found.until:
            patience.raise_if_over(received, found.until)
        transfer.report()
        left = patience.left_in_all if received < found.until else _LAST_LOOK
        chunk = (yield Read(answer.stream, left)) if answer.stream is not None else b""
        if isinstance(chunk, bytes) and chunk:
            fruitless = 0
            received += len(chunk)
            transfer.add(len(chunk))
            digest.update(chunk)
            if received > found.until:
                detail = f"there are {found.until} bytes, but {received} or more were received"
                raise _wrong(caller, found, detail)
            if held:
                yield Emit(held)
            held = chunk
            continue
        if received == found.until:
            break
        patience.raise_if_over(received, found.until)
        reason = chunk.reason if isinstance(chunk, Lost) else "the answer ended early"
        fruitless += 1
        if fruitless > MAX_RESUMPTIONS:
            detail = f"the state ended after {received} of {found.until} bytes: {reason}"
            raise StateTruncated(detail) from ConnectionFailed(reason)
        log.info("download of a state broke off, resuming at byte %d of %d: %s", received, found.until, reason)
        answer = yield from _resume(caller, path, found, received, patience)
    if found.whole and digest.hexdigest() != found.sha256:
        raise _wrong(caller, found, f"the {received} bytes received do not match the digest that came with them")
    transfer.end()
    if held:
        yield Emit(held)


def _begun(
    caller: Caller, path: str, headers: Mapping[str, str], patience: _Patience, start: int, length: int | None
) -> Operation[tuple[Answer, _Start]]:
    """Begin a download through the service: of all bytes, or of ``length`` bytes from ``start`` (None: up to the end).

    Returns the answer with its open stream, and what the answer says about the bytes.
    """
    if start == 0 and length is None:
        reply = yield from caller.call(Request("GET", path, _start, headers), stream=True, timeout=patience.left)
        return reply.answer, reply.value
    if length == 0:
        seen = yield from caller.call(Request("HEAD", path, _start, headers), timeout=patience.left)
        return seen.answer, replace(seen.value, end=0)
    asked = f"bytes={start}-" + ("" if length is None else str(start + length - 1))
    request = Request("GET", path, _start_of_part(start, length), {**headers, "Range": asked})
    try:
        reply = yield from caller.call(request, stream=True, timeout=patience.left)
    except InvalidRequest as refused:
        if refused.code is not Code.RANGE_NOT_SATISFIABLE:
            raise
        return Answer(416, {}), _Start("", 0, hashlib.sha256().hexdigest())
    return reply.answer, reply.value


def _wrong(caller: Caller, start: _Start, detail: str) -> StateTruncated:
    """Return the error for received bytes that do not have the size or digest of the state. If the service itself sent
    them, the state is damaged.

    If a blob store sent them, damage is not certain: another server may have answered under the same address. So the
    next read goes through the service.
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


def _start_of_part(first: int, length: int | None) -> Callable[[Answer], _Start]:
    """Return a reader for the headers of an answer with a part of a state: ``length`` bytes from ``first`` (None: the
    rest). The reader refuses any other part.
    """

    def read(answer: Answer) -> _Start:
        span = _CONTENT_RANGE.match(answer.headers.get("content-range", ""))
        sha256 = parse_digest_header(answer.headers.get(Header.REPR_DIGEST.lower(), ""))
        version = unquote_version(answer.headers.get(Header.ETAG.lower(), ""))
        if answer.status != 206 or span is None or sha256 is None or version is None:
            raise ValueError("no part, or without the digest or the version of what it is of")
        size, end = int(span[3]), int(span[2]) + 1
        if int(span[1]) != first or end != (size if length is None else min(size, first + length)):
            raise ValueError("another part than the one that was asked for")
        return _Start(version, size, sha256, None, first, end)

    return read


def _start_or_place(answer: Answer) -> _Start:
    """Read the headers of an answer with a state, or of a redirect to a signed URL of the blob store. A redirect does
    not say the size, so the result then has size 0.
    """
    if answer.status != 307:
        return _start(answer)
    sha256 = parse_digest_header(answer.headers.get(Header.REPR_DIGEST.lower(), ""))
    version = unquote_version(answer.headers.get(Header.ETAG.lower(), ""))
    if sha256 is None or version is None:
        raise ValueError("without the digest or the version of the state")
    return _Start(version, 0, sha256, answer.headers[Header.LOCATION.lower()])


def _is_for_the_direct_way(caller: Caller, handle: str, patience: _Patience) -> Operation[bool]:
    """Return whether to ask the service for a signed URL of the state, by the size in the record at the path
    ``handle``.

    Until the service has signed a URL for this client, return True for a state of any size, to find out whether the
    service signs URLs. Return False while direct transfer is off.
    """
    if not (caller.direct.open and caller.direct.signs):
        return caller.direct.open
    request = Request("GET", handle, answers.document(answers.handle))
    reply = yield from caller.call(request, timeout=patience.left)
    return caller.direct.suits(reply.value.size)


def _straight(
    caller: Caller, path: str, headers: Mapping[str, str], patience: _Patience
) -> Operation[tuple[Answer, _Start] | None]:
    """Begin the download directly from the blob store, or through the service if it does not sign URLs.

    Returns the answer with its open stream, and what is known about the bytes; None if the signed URL does not work, so
    that the state must be requested from the service.
    """
    request = Request("GET", f"{path}?redirect=true", _start_or_place, headers, located=True)
    reply = yield from caller.call(request, stream=True, timeout=patience.left)
    place = reply.value
    if place.url is None:
        caller.direct.avoid("the service does not sign downloads", logging.DEBUG)
        return reply.answer, place
    caller.direct.signs = True
    trouble = trouble_with(place.url, caller.replicas.secure)
    if trouble is not None:
        caller.direct.avoid(trouble)
        return None
    answer = yield from _from_blob_store(caller, place.url, 0, patience)
    if answer is None or not _SIZE.match(answer.headers.get("content-length", "")):
        return None
    return answer, replace(place, size=int(answer.headers["content-length"]))


def _from_blob_store(caller: Caller, url: str, received: int, patience: _Patience) -> Operation[Answer | None]:
    """Ask the blob store, by the signed URL ``url``, for the bytes of a state from offset ``received`` on.

    Returns None if the blob store does not return them; the caller then asks the service, which reports the reason.
    """
    headers = {"Range": f"bytes={received}-"} if received else {}
    for _ in range(2):  # twice: the blob store may have closed the connection since its last use
        left = patience.left
        if left <= 0:
            return None
        began, send = caller.clock(), signed("GET", url, headers, None, left)
        result = yield send
        log_signed(send, result, caller.clock() - began)
        if isinstance(result, Answer):
            return result if result.status == (206 if received else 200) else None
        if not caller.direct.worth_another_try(send, result, caller.clock() - began):
            return None
    return None


def _resume(caller: Caller, path: str, start: _Start, received: int, patience: _Patience) -> Operation[Answer]:
    """Ask for the rest of a state after a connection broke: for the bytes from ``received`` on, of the same version.

    If the service refuses, the download ends with `StateTruncated`, because a part of the state has already been
    emitted.
    """
    if start.url is not None:
        rest = yield from _from_blob_store(caller, start.url, received, patience)
        if rest is not None and _is_rest(rest, start, received):
            return rest

    def rest_of(answer: Answer) -> Answer:
        if not _is_rest(answer, start, received):
            raise ValueError("not the rest that was asked for")
        return answer

    asked = f"bytes={received}-" + ("" if start.end is None else str(start.end - 1))
    headers = {"Range": asked, **if_match(start.version)}
    try:
        request = Request("GET", path, rest_of, headers)
        return (yield from caller.call(request, stream=True, timeout=patience.left)).value
    except MilepostError as error:
        truncated = StateTruncated(
            f"the state ended after {received} of {start.size} bytes; the rest is refused: {error}"
        )
        truncated.request_id = error.request_id
        raise truncated from error


def _is_rest(answer: Answer, start: _Start, received: int) -> bool:
    found = _CONTENT_RANGE.match(answer.headers.get("content-range", ""))
    expected = (str(received), str(start.until - 1), str(start.size))
    return answer.status == 206 and found is not None and found.groups() == expected


class _Patience:
    """The time limit of a download: ``timeout`` seconds for its start and for each resumption after a broken connection
    or, with ``whole``, for the whole download.
    """

    def __init__(self, timeout: float, whole: bool, clock: Clock) -> None:
        self._timeout = timeout
        self._clock = clock
        self._deadline = clock() + timeout if whole else math.inf

    @property
    def left(self) -> float:
        """Seconds that the next step may take; 0 once the time for the whole download is over."""
        return min(self._timeout, self.left_in_all)

    @property
    def left_in_all(self) -> float:
        """Seconds until the whole download must have ended; infinity if only its steps are limited."""
        return self._deadline - self._clock()

    def raise_if_over(self, received: int, size: int) -> None:
        """Raise `DeadlineExceeded` if no time is left for the whole download; ``received`` of its ``size`` bytes have
        come.
        """
        if self.left_in_all <= 0:
            raise DeadlineExceeded(f"the deadline passed after {received} of the {size} bytes of the state")
