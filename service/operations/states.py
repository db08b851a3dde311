"""Operations that carry bytes: add, replace, and reading a state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from service.blobs.delivery import deliver, is_missing
from service.blobs.intake import Incoming, blob_key, take_in
from service.journal import Served
from service.journal.claims import MaySubmit, Superseded
from service.leader import Replica
from service.operations.calls import Caller, Reply, attempted, decided, reply_of
from service.operations.handles import existing
from service.problems import noted, problem
from service.rules.decisions import Accepted, Decision
from service.rules.records import Handle
from service.rules.requests import Add, BlobRef, Replace, Request


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes ``[start, end)`` that a reader asked for."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A state on its way out."""

    handle: Handle
    span: Span
    chunks: AsyncIterator[bytes]
    revision: int
    term: int


async def add(
    replica: Replica, caller: Caller, store: str, name: str, incoming: Incoming, labels: Mapping[str, str]
) -> Reply:
    """addAndLock: blob first, pointer second."""

    def request(blob: BlobRef) -> Request:
        return Add(caller.session, caller.key, caller.attempt, store, name, caller.epoch, blob, labels)

    return await _with_blob(replica, caller, store, incoming, request)


async def replace(
    replica: Replica,
    caller: Caller,
    store: str,
    name: str,
    version: str,
    incoming: Incoming,
    labels: Mapping[str, str] | None,
) -> Reply:
    """replace: the old blob is discarded once it has lingered."""

    def request(blob: BlobRef) -> Request:
        return Replace(caller.session, caller.key, caller.attempt, store, name, caller.epoch, version, blob, labels)

    return await _with_blob(replica, caller, store, incoming, request)


async def _with_blob(
    replica: Replica, caller: Caller, store: str, incoming: Incoming, request_of: Callable[[BlobRef], Request]
) -> Reply:
    """Put the bytes, then move the pointer; bytes that can never be named any more are discarded at once."""
    if not replica.leads:
        raise problem(Code.NO_LEADER, "this replica does not lead")
    generation = replica.journal.generation
    key = blob_key(store, replica.journal.term)

    async def act(may_submit: MaySubmit) -> Reply:
        blob = await take_in(replica.blobs, key, incoming, replica.settings.max_state_bytes)
        return await _moved(replica, request_of(blob), blob, generation, may_submit)

    return await attempted(replica, caller, store, act)


async def _moved(replica: Replica, request: Request, blob: BlobRef, generation: int, may_submit: MaySubmit) -> Reply:
    served: Served | None = None
    try:
        served = await decided(replica, request, generation, may_submit)
        reply = reply_of(served)
    except Superseded:
        await replica.trash.try_now(blob.key)
        raise
    except Problem as error:
        if served is not None or error.outcome is Outcome.NOT_APPLIED:
            failure = await replica.trash.try_now(blob.key)
            if failure is not None:
                raise noted(error, f"and the bytes could not be discarded yet: {failure}") from error
        raise
    if not _took(served.decision, blob):
        await replica.trash.try_now(blob.key)
    return reply


def _took(decision: Decision, blob: BlobRef) -> bool:
    """Whether the pointer was moved to this very blob: the replay of an earlier attempt leaves it unused."""
    return isinstance(decision, Accepted) and any(
        isinstance(record, Handle) and record.blob == blob.key for record in decision.changes.values()
    )


async def read_state(
    replica: Replica,
    store: str,
    name: str,
    version: str | None,
    span_of: Callable[[Handle], Span],
) -> Delivery:
    """The bytes of a handle. Without ``version``, a state replaced in this very moment is read in its newer form.

    ``span_of`` picks the bytes, and raises a problem for a range that lies outside.
    """
    while True:
        reading = replica.journal.read()
        handle = existing(reading.view, store, name)
        if version is not None and handle.version != version:
            raise problem(
                Code.VERSION_MISMATCH,
                f"{name!r} is at version {handle.version!r}, not {version!r}",
                extras={"current": handle.version},
            )
        span = span_of(handle)
        ref = BlobRef(handle.blob, handle.size, handle.sha256)
        try:
            chunks = await deliver(replica.blobs, ref, span.start, span.end)
        except Problem as error:
            if is_missing(error) and _moved_on(replica, store, name, handle):
                continue
            raise
        return Delivery(handle, span, chunks, reading.revision, reading.term)


def _moved_on(replica: Replica, store: str, name: str, handle: Handle) -> bool:
    """Whether the handle is another version by now, or gone: then its old blob is rightly missing."""
    now = replica.journal.read().view.handle(store, name)
    return not isinstance(now, Handle) or now.version != handle.version or now.removing or now.gone
