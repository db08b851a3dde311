"""Decide add, replace, remove, lock and release of one handle (Flink's addAndLock, replace, releaseAndTryRemove,
getAndLock, release), and the uploads that provide the bytes of handles.

A client puts the bytes of an upload into the blob store itself. A durable record announces these bytes, until a handle
takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Unpack

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model.records import Corrupt, Handle, Lock, Store, Upload, handle_key, upload_key
from milepost_server.model.requests.base import HandleRequest
from milepost_server.model.requests.handles import (
    Add,
    CreateUpload,
    ExpireUpload,
    FinishRemoval,
    LockHandle,
    ReleaseHandle,
    Remove,
    Replace,
)
from milepost_server.rules import guards, history, locks, replays
from milepost_server.rules.answers import held_body
from milepost_server.rules.decisions import (
    Accepted,
    Answer,
    Blocked,
    Changes,
    Decision,
    DecisionContext,
    FinishNeeded,
    Handlers,
    Refused,
)


class UploadSource(NamedTuple):
    """Where the bytes of a request are, in ``blob`` or as ``data``, and the ``changes`` to other records that its
    commit must make.
    """

    blob: str
    data: bytes | None
    changes: Changes


class Added(NamedTuple):
    """The result of an add: the record of the new ``handle``, the ``orphans``, which are blobs of a cleared handle of
    the same name, and the ``changes`` to other records that the commit must make.
    """

    handle: Handle
    orphans: tuple[str, ...]
    changes: Changes


class Replaced(NamedTuple):
    """The result of a replace: the record of the ``handle`` with its new state, the sessions that hold it, the blob
    that had the old state, and the ``changes`` to other records that the commit must make. The blob is the empty string
    if the record had the old state.
    """

    handle: Handle
    held: tuple[str, ...]
    old_blob: str
    changes: Changes


def present(store: Store, handle: Handle | Corrupt | None) -> Handle | None:
    """Return the handle if clients can read, lock and replace it. Return None if it is gone or cleared, its removal has
    begun, or its record is damaged.
    """
    if isinstance(handle, Handle) and not handle.removing and not absent(store, handle):
        return handle
    return None


def absent(store: Store, handle: Handle) -> bool:
    """Return whether the handle was removed or cleared, so that its record is kept only for retries."""
    return handle.gone or handle.created_revision <= store.cleared


def add(view: View, request: Add, context: DecisionContext) -> Decision:
    """Add a pointer to bytes that are already in the blob store, and lock the new handle for the session."""
    store = view.store_or_new(request.store_name)
    added = added_handle(view, store, request, context)
    if not isinstance(added, Added):
        return added
    held = (request.session,)
    return _changed(added.handle, held, request, context, orphans=added.orphans, changes=added.changes)


def added_handle(view: View, store: Store, request: Add, context: DecisionContext) -> Added | Refused | Blocked:
    """Return a new handle with the state of the request, locked for its session, or why it cannot be added now. The
    caller must have checked that the session lives and that the epoch is current.
    """
    session = view.acting_session(request.session)
    old = view.handle(store.name, request.name)
    if isinstance(old, Corrupt):
        return Refused(Code.ALREADY_EXISTS, f"{request.name!r} exists, but its record is damaged: {old.reason}")
    if old is not None and not absent(store, old):
        if old.removing:
            return Blocked(finish_of(store, old))
        return Refused(Code.ALREADY_EXISTS, f"{request.name!r} already exists", {"current": old.version})
    source = source_of(view, store, request, context)
    if isinstance(source, Refused):
        return source
    handle = Handle(
        name=request.name,
        version=context.version,
        blob="",
        size=request.blob.size,
        sha256=request.blob.sha256,
        created=context.wall,
        updated=context.wall,
        created_revision=context.revision,
        changed=context.revision,
        labels=dict(request.labels),
        locks=(Lock(session.id, session.created_revision, context.revision),),
        epoch=request.epoch,
        answered=old.answered if old else (),
        evicted_answers_at=old.evicted_answers_at if old else 0,
    ).holding(source.blob, source.data)
    return Added(handle, (old.blob,) if old is not None and not old.gone else (), source.changes)


def replace_state(view: View, request: Replace, context: DecisionContext) -> Decision:
    """Replace a handle's state by compare-and-set. The session must hold a lock on the handle. The same commit enters
    what the client states about the job.
    """
    store = view.store_or_new(request.store_name)
    replaced = replaced_handle(view, store, request, context)
    if isinstance(replaced, Refused):
        return replaced
    changes: Changes = replaced.changes
    if request.act is not None:
        entered = history.act(view, request, request.act.kind, context, epoch=request.epoch or 0, **request.act.about)
        changes = {**changes, **entered}
    discards = (replaced.old_blob,)
    return _changed(replaced.handle, replaced.held, request, context, discards=discards, changes=changes)


def replaced_handle(view: View, store: Store, request: Replace, context: DecisionContext) -> Replaced | Refused:
    """Return a handle with the new state of the request, or the refusal of the request. The caller must have checked
    that the session lives and that the epoch is current.
    """
    session = view.acting_session(request.session)
    found = _existing(view, store, request)
    if isinstance(found, Refused):
        return found
    if mismatch := guards.version_matches(found, request.version):
        return mismatch
    held = locks.holders(view, store, found)
    if session.id not in held:
        return Refused(Code.NOT_LOCKED, f"session {session.id!r} holds no lock on {request.name!r}")
    source = source_of(view, store, request, context)
    if isinstance(source, Refused):
        return source
    handle = found.holding(
        source.blob,
        source.data,
        version=context.version,
        size=request.blob.size,
        sha256=request.blob.sha256,
        updated=context.wall,
        changed=context.revision,
        labels=found.labels if request.labels is None else dict(request.labels),
        epoch=request.epoch,
        locks=locks.living(view, found.locks),
        freed=locks.living(view, found.freed),
    )
    return Replaced(handle, held, found.blob, source.changes)


def lock(view: View, request: LockHandle, context: DecisionContext) -> Decision:
    """Lock a handle for a session. If the session already holds it, nothing changes."""
    store = view.store_or_new(request.store_name)
    session = view.acting_session(request.session)
    found = _existing(view, store, request)
    if isinstance(found, Refused):
        return found
    held = locks.holders(view, store, found)
    if session.id in held:
        return Accepted(Answer(held_body(found, held), found.version))
    handle = replace(
        found,
        locks=locks.taken(view, found, session, context.revision),
        freed=locks.living(view, found.freed),
        changed=context.revision,
    )
    return _changed(handle, sorted((*held, session.id)), request, context)


def release(view: View, request: ReleaseHandle, context: DecisionContext) -> Decision:
    """Release a session's lock on a handle; a missing lock is no error."""
    store = view.store_or_new(request.store_name)
    session = view.acting_session(request.session)
    found = present(store, view.handle(store.name, request.name))
    if found is None or session.id not in locks.holders(view, store, found):
        return Accepted(Answer())
    freed = locks.given_back(view, store, found, session, context.revision)
    return replays.accepted(freed, request, context, Answer())


def remove(view: View, request: Remove, context: DecisionContext) -> Decision:
    """Mark a handle for removal. If another session holds it, only release the session's own lock."""
    store = view.store_or_new(request.store_name)
    session = view.acting_session(request.session)
    old = view.handle(store.name, request.name)
    if isinstance(old, Corrupt):
        return replays.accepted(_gone_without_trace(request.name, context), request, context, Answer({"removed": True}))
    if old is None or absent(store, old):
        return Accepted(Answer({"removed": True}))
    finish = finish_of(store, old)
    if old.removing:
        return Accepted(Answer({"removed": True}), finish=finish)
    if request.version is not None and (mismatch := guards.version_matches(old, request.version)):
        return mismatch
    held = locks.holders(view, store, old)
    others = [holder for holder in held if holder != session.id]
    if others:
        answer = Answer({"removed": False, "locks": others})
        if session.id not in held:
            return Accepted(answer)
        freed = locks.given_back(view, store, old, session, context.revision)
        return replays.accepted(freed, request, context, answer)
    if old.data is not None:  # without a blob, the removal is complete at once
        gone = _gone(replace(old, locks=(), freed=()), context)
        return replays.accepted(gone, request, context, Answer({"removed": True}))
    marked = replace(old, removing=True, locks=(), freed=(), changed=context.revision)
    return replays.accepted(marked, request, context, Answer({"removed": True}), finish=finish)


def finish_removal(view: View, request: FinishRemoval, context: DecisionContext) -> Decision:
    """Finish a removal whose blob is deleted: the handle is gone, and its record only keeps answers."""
    store = view.store_or_new(request.store_name)
    old = view.handle(store.name, request.name)
    if not isinstance(old, Handle) or not old.removing or old.version != request.version:
        return Accepted(Answer())
    return Accepted(Answer(), {handle_key(store.name, old.name): _gone(old, context)})


def create_upload(view: View, request: CreateUpload, context: DecisionContext) -> Decision:
    """Announce an upload. No epoch is checked here: it is checked when a handle takes the bytes."""
    store = view.store_or_new(request.store_name)
    session = view.acting_session(request.session)
    if full := guards.upload_has_room(view.pending_uploads(store.name), context):
        return full
    answer = Answer({"upload": request.upload}, created=True)
    upload = Upload(
        id=request.upload,
        blob=request.blob.key,
        size=request.blob.size,
        sha256=request.blob.sha256,
        session=session.id,
        ttl=request.ttl,
        created_revision=context.revision,
        answered=() if request.key is None else (replays.entry_for(request, context, answer),),
    )
    return Accepted(answer, {upload_key(store.name, upload.id): upload})


def source_of(view: View, store: Store, request: Add | Replace, context: DecisionContext) -> UploadSource | Refused:
    """Return the source of the bytes for a handle, or the refusal of an upload that cannot be used. If an upload has
    the bytes, the changes end the upload, so that no other handle can take them.
    """
    ref = request.upload
    if ref is None:
        return UploadSource(request.blob.key, request.data, {})
    upload = view.upload(store.name, ref.id)
    if isinstance(upload, Corrupt):
        return Refused(Code.CORRUPT, f"the record of upload {ref.id!r} is damaged: {upload.reason}")
    if unknown := guards.upload_pending(upload, ref):
        return unknown
    assert upload is not None
    if wrong := guards.upload_whole(upload, request.blob, ref.found):
        return wrong
    taken = replace(upload, ended=context.revision, blob="")
    return UploadSource(upload.blob, None, {upload_key(store.name, upload.id): taken})


def expire_upload(view: View, request: ExpireUpload, context: DecisionContext) -> Decision:
    """End an upload that has expired. Its blob is deleted later, so the record still names the blob."""
    upload = view.upload(request.store_name, request.upload)
    if not isinstance(upload, Upload) or upload.ended:
        return Accepted(Answer())
    ended = replace(upload, ended=context.revision)
    return Accepted(Answer(), {upload_key(request.store_name, upload.id): ended}, orphans=(upload.blob,))


def _gone(handle: Handle, context: DecisionContext) -> Handle:
    """Return the record of a handle after its removal, which only keeps answers for retries."""
    return handle.holding("", None, removing=False, gone=True, labels={}, changed=context.revision)


def _gone_without_trace(name: str, context: DecisionContext) -> Handle:
    """Return a record of a removed handle in place of an unreadable one, to keep the answer to the removal."""
    at = context.revision
    return Handle(
        name, context.version, "", 0, "", context.wall, context.wall, created_revision=at, changed=at, gone=True
    )


def finish_of(store: Store, handle: Handle) -> FinishNeeded:
    """Return what is needed to finish a removal that has begun: the name and version of the handle, and the blob to
    delete.
    """
    return FinishNeeded(store.name, handle.name, handle.version, handle.blob)


def _existing(view: View, store: Store, request: HandleRequest) -> Handle | Refused:
    found = view.handle(store.name, request.name)
    if isinstance(found, Corrupt):
        return Refused(Code.CORRUPT, f"the record of {request.name!r} is damaged: {found.reason}")
    handle = present(store, found)
    if handle is None:
        return Refused(Code.NOT_EXIST, f"there is no handle {request.name!r} in {store.name!r}")
    return handle


def _changed(
    handle: Handle,
    held: Sequence[str],
    request: HandleRequest,
    context: DecisionContext,
    **beside: Unpack[replays.Beside],
) -> Accepted:
    """Accept a request that changes a handle, and return the changed handle as the answer. ``held`` has the sessions
    that hold it then, sorted; ``beside`` has the other members of the decision, such as blobs to delete.
    """
    answer = Answer(held_body(handle, held), handle.version, created=isinstance(request, Add))
    return replays.accepted(handle, request, context, answer, **beside)


HANDLERS: Final[Handlers] = {
    Add: add,
    Replace: replace_state,
    LockHandle: lock,
    ReleaseHandle: release,
    Remove: remove,
    FinishRemoval: finish_removal,
    CreateUpload: create_upload,
    ExpireUpload: expire_upload,
}
