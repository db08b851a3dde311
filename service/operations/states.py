"""Operations that bring bytes: add and replace."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from service.blobs.intake import Incoming, take_in
from service.blobs.keys import blob_key
from service.journal import Served
from service.journal.claims import MaySubmit, Superseded
from service.leader import Replica
from service.operations.calls import Caller, Reply, attempted, decided, reply_of
from service.operations.uploads import Reference, add_or_replace
from service.problems import noted, problem
from service.rules.decisions import Accepted, Decision
from service.rules.records import Handle
from service.rules.requests import Add, BlobRef, Replace, Request, UploadRef

State = Incoming | Reference
"""The bytes themselves, or the upload that they lie in already."""

RequestOf = Callable[[BlobRef, UploadRef | None], Request]

_AWAY = frozenset({Code.SHUTTING_DOWN, Code.NO_LEADER})
_AWAY_SECONDS = 0.5
"""These refusals send the caller on to another replica; a slow discard here must not keep him from it for longer."""


async def add(
    replica: Replica, caller: Caller, store: str, name: str, state: State, labels: Mapping[str, str]
) -> Reply:
    """addAndLock: blob first, pointer second."""

    def request(blob: BlobRef, upload: UploadRef | None) -> Request:
        return Add(caller.session, caller.key, caller.attempt, store, name, caller.epoch, blob, labels, upload)

    return await _with_state(replica, caller, store, state, request)


async def replace(
    replica: Replica,
    caller: Caller,
    store: str,
    name: str,
    version: str,
    state: State,
    labels: Mapping[str, str] | None,
) -> Reply:
    """replace: the old blob is discarded once it has lingered."""

    def request(blob: BlobRef, upload: UploadRef | None) -> Request:
        acting = caller.session, caller.key, caller.attempt
        return Replace(*acting, store, name, caller.epoch, version, blob, labels, upload)

    return await _with_state(replica, caller, store, state, request)


async def _with_state(replica: Replica, caller: Caller, store: str, state: State, request_of: RequestOf) -> Reply:
    if isinstance(state, Reference):
        return await add_or_replace(replica, caller, store, state, request_of)
    return await _with_blob(replica, caller, store, state, request_of)


async def _with_blob(replica: Replica, caller: Caller, store: str, incoming: Incoming, request_of: RequestOf) -> Reply:
    """Put the bytes, then move the pointer; bytes that can never be named any more are discarded at once."""
    if not replica.leads:
        raise problem(Code.NO_LEADER, "this replica does not lead")
    generation = replica.journal.generation
    key = blob_key(replica.journal.deployment, store, replica.journal.term)

    async def act(may_submit: MaySubmit) -> Reply:
        blob = await take_in(replica.blobs, key, incoming, replica.settings.max_state_bytes)
        return await _moved(replica, request_of(blob, None), blob, generation, may_submit)

    return await attempted(replica, caller, store, act)


async def _moved(replica: Replica, request: Request, blob: BlobRef, generation: int, may_submit: MaySubmit) -> Reply:
    served: Served | None = None
    try:
        served = await decided(replica, request, generation, may_submit)
        reply = reply_of(served)
    except Superseded:
        await replica.deletions.try_delete(blob.key)
        raise
    except Problem as error:
        if served is not None or error.outcome is Outcome.NOT_APPLIED:
            failure = await replica.deletions.try_delete(blob.key, _AWAY_SECONDS if error.code in _AWAY else None)
            if failure is not None:
                raise noted(error, f"and the bytes could not be discarded yet: {failure}") from error
        raise
    if not _took(served.decision, blob):
        await replica.deletions.try_delete(blob.key)
    return reply


def _took(decision: Decision, blob: BlobRef) -> bool:
    """Whether the pointer was moved to this very blob: the replay of an earlier attempt leaves it unused."""
    return isinstance(decision, Accepted) and any(
        isinstance(record, Handle) and record.blob == blob.key for record in decision.changes.values()
    )
