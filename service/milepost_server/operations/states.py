"""Operations on the bytes of states: add a handle with a state, replace the state, and read it.

A reader gets the bytes through the service, or by a signed URL from the blob store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from milepost_backends.contract import BlobStore
from milepost_server.basics.pieces import stream_of
from milepost_server.basics.problems import noted, problem
from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.blobs.delivery import deliver, is_missing, locate
from milepost_server.blobs.intake import Incoming, begin, take_in
from milepost_server.blobs.keys import blob_key
from milepost_server.journal import Journal, Reading, Served
from milepost_server.journal.attempts import MaySubmit, Superseded
from milepost_server.model.records import Handle
from milepost_server.model.requests.base import BlobRef, Request, UploadRef
from milepost_server.model.requests.handles import Add, Replace, StatedAct
from milepost_server.operations.handles import existing
from milepost_server.operations.uploads import Reference, UploadOperations
from milepost_server.replica.submitter import Caller, Reply, Submitter, reply_of
from milepost_server.rules.decisions import Accepted, Decision

State = Incoming | Reference
"""A state that a client sends: its bytes, or a reference to an upload that already has the bytes."""

RequestOf = Callable[[BlobRef, bytes | None, UploadRef | None], Request]
"""A function that makes the request which gives a handle a new state. Its arguments are those of `Replace`: ``blob``,
``data`` and ``upload``.
"""

_AWAY = frozenset({Code.SHUTTING_DOWN, Code.NO_LEADER})
_AWAY_SECONDS = 0.5
"""The most seconds that a caller waits for the deletion of its blob, if its request was refused with a code in `_AWAY`.
Such a refusal tells the caller to ask another replica, so the caller must get it soon.
"""

T = TypeVar("T")


class StateOperations:
    """The operations add and replace: they put the blob first, and move the pointer second.

    A state has at most ``max_state_bytes`` bytes; None sets no limit. A state of fewer than ``inline_below`` bytes is
    stored in the handle's record.
    """

    def __init__(
        self,
        journal: Journal,
        blobs: BlobStore,
        deletions: DeletionQueue,
        uploads: UploadOperations,
        submitter: Submitter,
        *,
        max_state_bytes: int | None,
        inline_below: int,
    ) -> None:
        self._journal = journal
        self._blobs = blobs
        self._deletions = deletions
        self._uploads = uploads
        self._submitter = submitter
        self._max_state_bytes = max_state_bytes
        self._inline_below = inline_below

    async def add(self, caller: Caller, store: str, name: str, state: State, labels: Mapping[str, str]) -> Reply:
        """Create a handle with a state, and lock it for the caller's session: Flink's ``addAndLock``."""

        def request(blob: BlobRef, data: bytes | None, upload: UploadRef | None) -> Request:
            return Add(caller.attempt, store, name, caller.epoch, blob, labels, upload, data)

        return await self._with_state(caller, store, state, request)

    async def replace(
        self,
        caller: Caller,
        store: str,
        name: str,
        version: str,
        state: State,
        labels: Mapping[str, str] | None,
        act: StatedAct | None = None,
    ) -> Reply:
        """Replace the state of a handle that is at ``version``: Flink's ``replace``. Enter ``act`` into the history.

        The old blob is deleted ``linger_seconds`` later, so that readers can finish.
        """

        def request(blob: BlobRef, data: bytes | None, upload: UploadRef | None) -> Request:
            return Replace(caller.attempt, store, name, caller.epoch, version, blob, labels, upload, data, act)

        return await self._with_state(caller, store, state, request)

    def _with_state(self, caller: Caller, store: str, state: State, request_of: RequestOf) -> Awaitable[Reply]:
        if isinstance(state, Reference):
            return self._uploads.add_or_replace(
                caller, store, state, lambda announced, upload: request_of(announced, None, upload)
            )
        return self.put_and_submit(caller, store, state, request_of)

    async def put_and_submit(self, caller: Caller, store: str, incoming: Incoming, request_of: RequestOf) -> Reply:
        """Put the bytes, then make the handle point to them. ``request_of`` makes the request that does this from the
        blob, or from the bytes of a small state.

        If the request is certain never to be applied, its blob is deleted at once. A state of fewer than
        ``inline_below`` bytes goes into the record, and has no blob.
        """

        async def attempt(may_submit: MaySubmit) -> Reply:
            begun = await begin(incoming, self._inline_below, self._max_state_bytes)
            if begun.data is None:
                return await self._put_blob(store, begun.rest, request_of, may_submit)
            few = BlobRef("", len(begun.data), begun.sha256)
            return await self._submitter.perform(request_of(few, begun.data, None), may_submit)

        return await self._submitter.deduplicated(caller, store, attempt)

    async def _put_blob(self, store: str, rest: Incoming, request_of: RequestOf, may_submit: MaySubmit) -> Reply:
        journal = self._journal
        if not journal.lease_holds():
            raise problem(Code.NO_LEADER, "this replica does not lead")
        generation = journal.generation
        key = blob_key(journal.deployment, store, journal.term)
        blob = await take_in(self._blobs, key, rest, self._max_state_bytes)
        return await self._move_pointer(request_of(blob, None, None), blob, generation, may_submit)

    async def _move_pointer(self, request: Request, blob: BlobRef, generation: int, may_submit: MaySubmit) -> Reply:
        served: Served | None = None
        try:
            served = await self._submitter.submit_and_wait(request, generation, may_submit)
            reply = reply_of(served)
        except Superseded:
            await self._deletions.try_delete(blob.key)
            raise
        except Problem as error:
            if served is not None or error.outcome is Outcome.NOT_APPLIED:
                failure = await self._deletions.try_delete(blob.key, _AWAY_SECONDS if error.code in _AWAY else None)
                if failure is not None:
                    raise noted(error, f"and the bytes could not be discarded yet: {failure}") from error
            raise
        if not _took(served.decision, blob):
            await self._deletions.try_delete(blob.key)
        return reply


def _took(decision: Decision, blob: BlobRef) -> bool:
    """Return whether the decision made the handle point to this blob. If it is the replay of an earlier attempt's
    answer, it did not: the handle points to the blob of that attempt.
    """
    return isinstance(decision, Accepted) and any(
        isinstance(record, Handle) and record.blob == blob.key for record in decision.changes.values()
    )


@dataclass(frozen=True, slots=True)
class Span:
    """A range of bytes that a reader asked for: from ``start`` up to, but not including, ``end``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """The bytes of a state that are being sent to a reader, with the revision and term of the state that was read."""

    handle: Handle
    span: Span
    chunks: AsyncIterator[bytes]
    revision: int
    term: int


@dataclass(frozen=True, slots=True)
class Location:
    """A signed URL at which the bytes of a state can be fetched for a while.

    The URL is a secret for that time, so it is left out of the ``repr``.
    """

    handle: Handle
    url: str = field(repr=False)
    revision: int
    term: int


class StateReader:
    """The operations that read states. A signed URL to a state is valid for ``download_seconds``."""

    def __init__(self, journal: Journal, blobs: BlobStore, download_seconds: float) -> None:
        self._journal = journal
        self._blobs = blobs
        self._download_seconds = download_seconds

    async def read(self, store: str, name: str, version: str | None, span_of: Callable[[Handle], Span]) -> Delivery:
        """Return the bytes of a handle. If the state is replaced before its blob is opened, the newer state is read,
        unless ``version`` is given.

        ``span_of`` selects the range of bytes, and raises a problem for a range outside of the state.
        """

        async def delivered(handle: Handle, span: Span) -> AsyncIterator[bytes]:
            if handle.data is not None:
                return stream_of(handle.data[span.start : span.end])
            return await deliver(self._blobs, _blob_of(handle), span.start, span.end)

        handle, span, chunks, reading = await self._newest(store, name, version, span_of, delivered)
        return Delivery(handle, span, chunks, reading.revision, reading.term)

    async def locate(
        self, store: str, name: str, version: str | None, span_of: Callable[[Handle], Span]
    ) -> Location | None:
        """Return a signed URL to the bytes that `read` would deliver.

        Returns None if the blob store cannot sign, or if the bytes are in the record. The method checks that the blob
        exists, but does not read it: the client that fetches the bytes verifies their size and digest.
        """

        async def located(handle: Handle, _: Span) -> str | None:
            return None if handle.data is not None else await locate(self._blobs, _blob_of(handle), seconds)

        seconds = self._download_seconds

        handle, _, url, reading = await self._newest(store, name, version, span_of, located)
        return None if url is None else Location(handle, url, reading.revision, reading.term)

    async def _newest(
        self,
        store: str,
        name: str,
        version: str | None,
        span_of: Callable[[Handle], Span],
        get: Callable[[Handle, Span], Awaitable[T]],
    ) -> tuple[Handle, Span, T, Reading]:
        while True:
            reading = self._journal.read()
            handle = existing(reading.view, store, name)
            if version is not None and handle.version != version:
                raise problem(
                    Code.VERSION_MISMATCH,
                    f"{name!r} is at version {handle.version!r}, not {version!r}",
                    extras={"current": handle.version},
                )
            span = span_of(handle)
            try:
                got = await get(handle, span)
            except Problem as error:
                if is_missing(error) and self._moved_on(store, name, handle):
                    continue
                raise
            return handle, span, got, reading

    def _moved_on(self, store: str, name: str, handle: Handle) -> bool:
        """Return whether a missing blob is explained by a change since ``handle`` was read: the handle was replaced or
        removed.
        """
        now = self._journal.read().view.handle(store, name)
        return not isinstance(now, Handle) or now.version != handle.version or now.removing or now.gone


def _blob_of(handle: Handle) -> BlobRef:
    return BlobRef(handle.blob, handle.size, handle.sha256)
