"""Tries the pointer store, the election and the blob store that a replica would use, and reports the finding for each.

A check creates no deployment, takes no leadership, and changes nothing of a deployment: a replica may serve meanwhile.
The trial of the blob store puts blobs of its own, whose keys begin with a word that is not the id of any deployment.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

import httpx

from milepost_backends.contract import (
    BackendError,
    BlobExists,
    BlobMissing,
    BlobStore,
    Election,
    Misconfigured,
    PointerStore,
    SignedRequest,
    StorageFull,
    StorageRefused,
    StorageUnavailable,
)
from milepost_server.basics.waiting import within
from milepost_server.blobs.timeouts import BlobsWithTimeout

log = logging.getLogger("milepost.check")
STORE_SECONDS: Final = 120.0
"""The most seconds that the trial of one store takes."""
_CLOSE_SECONDS: Final = 10.0
_STEP_SECONDS: Final = 30.0

DIRECTORY: Final = "checks"
"""The first segment of the trial's keys; no deployment has this id, and all other keys begin with a deployment's id."""

_SMALL: Final = 256 * 1024
_LARGE: Final = 11 * 1024 * 1024
"""A size in bytes that S3 takes as an upload of three parts."""
_SIGNED_SECONDS: Final = 300.0
_TIDY_SECONDS: Final = 10.0
_ABANDONED_SECONDS: Final = 3600.0
_MOMENTARY: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})

_SIGNED_PUT: Final = "a signed PUT with If-None-Match: *"
_SIGNED_GET: Final = "a signed GET with a Range"


class Verdict(Enum):
    """The result of trying the pointer store, the election or the blob store: each member has the exit status of
    ``--check`` and a short text. The members are sorted by severity, the most serious last.
    """

    OK = 0, "ok"
    FULL = 75, "no room"
    UNAVAILABLE = 75, "no answer"
    REFUSED = 2, "refused"

    def __init__(self, status: int, words: str) -> None:
        self.status = status
        self.words = words


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of ``--check`` for the pointer store, the election or the blob store. ``overran``: the trial took too
    long, and still runs in the background.
    """

    store: str
    verdict: Verdict
    what: str
    overran: bool = False

    def __str__(self) -> str:
        """Return the line that ``--check`` prints for this finding."""
        return f"{self.store}: {self.verdict.words}: {' '.join(self.what.split())}"


def status_of(findings: list[Finding]) -> int:
    """Return the exit status of ``--check`` for all findings: that of the most serious one. A misconfiguration
    outweighs an outage.
    """
    gravity = list(Verdict).index
    return max((finding.verdict for finding in findings), key=gravity, default=Verdict.OK).status


class _Store(Protocol):
    async def open(self) -> None: ...
    async def close(self) -> None: ...


async def try_stores(
    pointers: PointerStore, election: Election, blobs: BlobStore, seconds: float = STORE_SECONDS
) -> AsyncIterator[Finding]:
    """Try the pointer store, the election and the blob store, and yield the finding for each as soon as it is known.
    Each trial takes at most ``seconds``.
    """
    bounded = BlobsWithTimeout(blobs, min(_STEP_SECONDS, seconds))
    trial = BlobTrial(bounded, min(_STEP_SECONDS, seconds))
    yield await _tried("pointers", pointers, lambda: _looked_at(pointers), seconds)
    yield await _tried("election", election, lambda: _asked(election), seconds)
    yield await _tried("blobs", bounded, trial.run, seconds)


async def _tried(name: str, store: _Store, use: Callable[[], Awaitable[str]], seconds: float) -> Finding:
    async def opened_and_used() -> str:
        await store.open()
        return await use()

    overran = False
    try:
        what, verdict = await within(seconds, opened_and_used()), Verdict.OK
    except TimeoutError as error:
        what, verdict, overran = str(error), Verdict.UNAVAILABLE, True
    except StorageRefused as error:
        what, verdict = str(error), Verdict.REFUSED
    except StorageFull as error:
        what, verdict = str(error), Verdict.FULL
    except StorageUnavailable as error:
        what, verdict = str(error), Verdict.UNAVAILABLE
    except BackendError as error:
        what, verdict = str(error), Verdict.REFUSED
    try:
        await within(_CLOSE_SECONDS, store.close())
    except TimeoutError:
        overran = True
    return Finding(name, verdict, what, overran)


async def _looked_at(pointers: PointerStore) -> str:
    """Return a description of the content of the pointer store. Raises `StorageFull` if it would accept no records
    now.
    """
    journals = await pointers.journals()
    if (full := pointers.full) is not None:
        raise StorageFull(full)
    there = "the records of a deployment are there" if journals else "no deployment was founded there yet"
    return f"opened and read {pointers.place}; {there}"


async def _asked(election: Election) -> str:
    leader = await election.leader()
    return f"opened and read; {'no replica leads' if leader is None else f'{leader} leads'}"


class BlobTrial:
    """One trial of the opened blob store ``blobs``; ``seconds`` bounds the wait for the answer to a signed request."""

    def __init__(self, blobs: BlobStore, seconds: float) -> None:
        self._blobs = blobs
        self._seconds = seconds
        self._large = f"{DIRECTORY}/{secrets.token_hex(16)}"
        self._small = f"{self._large}-small"
        self._signed = f"{self._large}-signed"
        self._content = secrets.token_bytes(_LARGE)

    async def run(self) -> str:
        """Try the blob store, and return in words what it can do. Leaves no blob behind.

        Raises `Misconfigured` if the blob store lacks an ability that the service needs, and the errors of the blob
        store's calls.
        """
        # remove blobs that an earlier trial left behind because it was killed
        for key in await self._listed(_ABANDONED_SECONDS):
            await self._blobs.delete(key)
        try:
            await self._write(self._small, _SMALL)
            await self._write(self._large, _LARGE)
            await self._read()
            if (await self._listed(0.0)).get(self._large) != _LARGE:
                raise Misconfigured("a blob that was written is not in the list of blobs, or not with its size")
            signs = await self._try_signed()
            await self._delete()
        finally:
            await self._leave_nothing()
        return f"wrote, was refused to overwrite, read the whole and ranges, listed and deleted; {signs}"

    async def _listed(self, older_than: float) -> dict[str, int]:
        return {info.key: info.size async for info in self._blobs.list(f"{DIRECTORY}/", older_than)}

    async def _write(self, key: str, size: int) -> None:
        await self._blobs.put(key, self._stream(size))
        try:
            await self._blobs.put(key, self._stream(size))
        except BlobExists:
            return
        raise Misconfigured(f"a blob of {size} bytes was overwritten, so another writer's could be as well")

    async def _read(self) -> None:
        for start, end in ((0, None), (0, 1), (_LARGE // 2, _LARGE // 2 + _SMALL), (_LARGE - 1, _LARGE)):
            read = b"".join([chunk async for chunk in self._blobs.get(self._large, start, end, size=_LARGE)])
            if read != self._content[start:end]:
                raise Misconfigured(f"the bytes {start} to {end or _LARGE} of a blob do not read back as written")

    async def _delete(self) -> None:
        await self._blobs.delete(self._large)
        try:
            await self._blobs.size(self._large)
        except BlobMissing:
            return
        raise Misconfigured("a blob that was deleted is still there")

    # -- what clients send by themselves -----------------------------------------------------------------------------

    async def _try_signed(self) -> str:
        """Send requests with signed URLs as a client would, and return the result in words. It is no error if this
        machine cannot reach the signed URLs.
        """
        body = self._content[:_SMALL]
        put = await self._blobs.sign_put(self._signed, _SMALL, hashlib.sha256(body).hexdigest(), _SIGNED_SECONDS)
        get = await self._blobs.sign_get(self._large, _SIGNED_SECONDS)
        if put is None or get is None:
            return "it signs no requests, so all bytes pass through the service"
        async with httpx.AsyncClient(timeout=self._seconds) as client:
            try:
                _require_success(await _send(client, put, body), _SIGNED_PUT)
                _require_refused(await _send(client, put, body), _SIGNED_PUT)
                part = await _send(client, get, None, {"Range": f"bytes=1-{_SMALL}"})
            except httpx.HTTPError as error:
                # the text of the exception is not used: it may quote the signed URL, which is a secret
                return f"signed requests cannot be sent from this machine ({type(error).__name__})"
        _require_success(part, _SIGNED_GET)
        if part.status_code != httpx.codes.PARTIAL_CONTENT or part.content != self._content[1 : _SMALL + 1]:
            raise Misconfigured(f"{_SIGNED_GET} is answered {part.status_code}, and not with the range")
        return "signed requests work from this machine"

    # -- private -----------------------------------------------------------------------------------------------------

    async def _leave_nothing(self) -> None:
        for key in (self._large, self._small, self._signed):
            try:
                await within(_TIDY_SECONDS, self._blobs.delete(key))
            except (BackendError, TimeoutError) as error:
                log.warning("the blob %s of a trial may be left, for a later trial to delete: %s", key, error)

    async def _stream(self, size: int) -> AsyncIterator[bytes]:
        for begin in range(0, size, _SMALL):
            yield self._content[begin : begin + _SMALL]


async def _send(
    client: httpx.AsyncClient, request: SignedRequest, body: bytes | None, more: dict[str, str] | None = None
) -> httpx.Response:
    headers = {**request.headers, **(more or {})}
    return await client.request(request.method, request.url, content=body, headers=headers)


def _require_success(answer: httpx.Response, what: str) -> None:
    """Raise unless ``answer`` is a success: `StorageUnavailable` for an error that may pass, `Misconfigured` for a
    refusal that will not. ``what`` names the request in the error's text.
    """
    if not answer.is_success:
        kind = StorageUnavailable if answer.status_code in _MOMENTARY else Misconfigured
        raise kind(f"{what} is answered {answer.status_code} by {answer.request.url.host}")


def _require_refused(answer: httpx.Response, what: str) -> None:
    if answer.is_success:
        raise Misconfigured(f"{what} overwrites a blob")
    if answer.status_code != httpx.codes.PRECONDITION_FAILED and b"<Code>PreconditionFailed<" not in answer.content:
        _require_success(answer, what)
