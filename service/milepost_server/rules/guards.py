"""The guards of requests: each returns the refusal of a request, or None if its condition holds.

Model checking (``model/``) showed what fails without each guard.
"""

from __future__ import annotations

from milepost.wire import Code, Outcome, cells_digest
from milepost_server.memory.lookup import Lookup
from milepost_server.model.moves import LEAVING, MOVED
from milepost_server.model.records import DEPLOYMENT_KEY, Corrupt, Deployment, Handle, Session, Store, Upload
from milepost_server.model.requests.base import Attempt, BlobRef, Request, UploadRef
from milepost_server.model.requests.handles import Campaign, Resign
from milepost_server.rules.decisions import DecisionContext, Refused


def session_lives(view: Lookup, session: str, context: DecisionContext) -> Refused | None:
    """Refuse a request without a living session; return None if its session lives. For an hour after the end of a
    session, the refusal says that the session has ended; after that, that it is unknown.
    """
    record = view.session(session)
    if isinstance(record, Corrupt):
        return Refused(Code.CORRUPT, f"the record of session {session!r} is damaged: {record.reason}")
    if record is None or 0 < record.ended <= context.sessions_horizon:
        return Refused(Code.SESSION_UNKNOWN, f"there is no session {session!r}")
    if record.ended:
        return Refused(Code.SESSION_EXPIRED, f"session {session!r} has ended")
    return None


def session_is_callers(view: Lookup, attempt: Attempt, context: DecisionContext) -> Refused | None:
    """Refuse a client that uses a session which another client opened. Any client may use a session without an owner.

    This check comes first, since even a replayed answer would reveal another client's session. A session that ended
    before ``sessions_horizon`` has no owner, so that any client can reuse its id.
    """
    record = view.session(attempt.session) if attempt.client is not None else None
    if not isinstance(record, Session) or record.owner in ("", attempt.client):
        return None
    if 0 < record.ended <= context.sessions_horizon:
        return None
    # at its first attempt, the client may still have had the name that owns the session
    outcome = Outcome.UNKNOWN if attempt.number > 1 else None
    return Refused(Code.FORBIDDEN, f"session {attempt.session!r} was not opened by {attempt.client!r}", outcome=outcome)


def store_readable(view: Lookup, store: str) -> Refused | None:
    """Refuse changes in a store whose own record is damaged, since that record has the current epoch."""
    record = view.store(store)
    if isinstance(record, Corrupt):
        return Refused(Code.CORRUPT, f"the record of store {store!r} is damaged: {record.reason}")
    return None


def epoch_is_current(store: Store, epoch: int | None, floor: int = 0) -> Refused | None:
    """Refuse a write without the store's current epoch, once the store had an epoch.

    An epoch that was never granted is refused too. So is an epoch up to ``floor``, after a restore from a backup: its
    driver may have been deposed after the backup was made.
    """
    if 0 < store.epoch <= floor:
        return Refused(
            Code.FENCED,
            f"epoch {store.epoch} of {store.name!r} is from before a restore; the next one has to be granted first",
            {"current": store.epoch},
        )
    if epoch == store.epoch or (epoch is None and store.epoch == 0):
        return None
    given = "no epoch was given" if epoch is None else f"epoch {epoch} was given"
    return Refused(
        Code.FENCED, f"{given}, the current one of {store.name!r} is {store.epoch}", {"current": store.epoch}
    )


def is_elsewhere(store: Store) -> Refused | None:
    """Refuse what is about a job that is in another cell."""
    move = store.elsewhere
    if move is None:
        return None
    detail = f"{store.name!r} was moved to the cell {move.cell!r}"
    if move.phase != MOVED:
        detail = f"{store.name!r} is being moved here from the cell {move.cell!r}, and is there until that is done"
    return Refused(Code.ELSEWHERE, detail, {"cell": move.cell, "epoch": move.epoch})


def is_not_frozen(view: Lookup, store: Store, request: Request) -> Refused | None:
    """Refuse a change of a job that is frozen, since it is being moved to another cell. Its epoch may be resigned."""
    if isinstance(request, Campaign | Resign) or store.move is None or not is_frozen(view, store):
        return None
    move = store.move
    detail = f"{store.name!r} is being moved to the cell {move.cell!r} under epoch {move.epoch}"
    return Refused(Code.HELD, detail, {"holder": None, "epoch": move.epoch})


def is_frozen(view: Lookup, store: Store) -> bool:
    """Return whether the session of a move holds the epoch under which the job leaves this cell."""
    move = store.move
    leaving = move is not None and move.phase == LEAVING and move.epoch == store.epoch
    return leaving and alive(view, store.epoch_session or "", store.epoch_session_created)


def store_may_begin(view: Lookup, store: str, cells: str | None) -> Refused | None:
    """Refuse to begin a store in a cell, unless the client's list of cells has the digest ``cells`` of this cell's own:
    two clients with different lists would begin one job in two cells. ``cells`` is None for a write, which begins no
    store in a cell. A deployment that is no cell begins every store.
    """
    deployment = view.get(DEPLOYMENT_KEY)
    if isinstance(deployment, Corrupt):
        detail = f"the record of the deployment is damaged, so it is not known of which cells {store!r} may begin in"
        return Refused(Code.CORRUPT, f"{detail} one: {deployment.reason}")
    if not isinstance(deployment, Deployment) or not deployment.cell:
        return None if cells is None else Refused(Code.CELLS_DIFFER, "this deployment is not one of several cells")
    extras = {"cell": deployment.cell, "cells": list(deployment.cells)}
    names = ", ".join(deployment.cells)
    if cells is None:
        detail = f"there is no {store!r} in the cell {deployment.cell!r}, and a write begins none: give the client the"
        return Refused(Code.CELLS_DIFFER, f"{detail} addresses of all cells, {names}", extras)
    if cells != cells_digest(deployment.cells):
        return Refused(Code.CELLS_DIFFER, f"the cell {deployment.cell!r} has the list of cells {names}", extras)
    return None


def version_matches(handle: Handle, version: str) -> Refused | None:
    """Refuse a change unless the handle has the version that the client named. Versions are compared, never added to
    and never tested for truth.
    """
    if handle.version == version:
        return None
    return Refused(
        Code.VERSION_MISMATCH,
        f"{handle.name!r} is at version {handle.version!r}, not {version!r}",
        {"current": handle.version},
    )


def retry_may_run(request: Request, evicted_answers_at: int, context: DecisionContext) -> Refused | None:
    """Refuse a retry whose first answer may have been dropped, so that the request is not applied a second time."""
    if request.attempt.number > 1 and evicted_answers_at > context.keys_horizon:
        return Refused(
            Code.OUTCOME_UNKNOWN,
            "an earlier attempt may have been applied; its answer is no longer kept",
            retryable=False,
        )
    return None


def upload_pending(upload: Upload | None, ref: UploadRef) -> Refused | None:
    """Refuse an upload that a handle has already taken, or that has expired."""
    if upload is not None and not upload.ended:
        return None
    return Refused(Code.UPLOAD_UNKNOWN, f"there is no upload {ref.id!r}, or it was used up, or its time is up")


def upload_whole(upload: Upload, announced: BlobRef, found: BlobRef | None) -> Refused | None:
    """Refuse an upload unless its announced, its stated and its stored bytes have the same size and digest."""
    if (announced.size, announced.sha256) != (upload.size, upload.sha256):
        return Refused(
            Code.DIGEST_MISMATCH,
            f"upload {upload.id!r} was announced with {upload.size} bytes and sha-256 {upload.sha256}, "
            f"not with {announced.size} bytes and {announced.sha256}",
        )
    if found is None or found.key != upload.blob:
        return Refused(Code.UPLOAD_UNKNOWN, f"no bytes have been put for upload {upload.id!r}")
    if found.size != upload.size:
        return Refused(Code.DIGEST_MISMATCH, f"{found.size} bytes were put, but {upload.size} were announced")
    if found.sha256 != upload.sha256:
        return Refused(
            Code.DIGEST_MISMATCH, f"the sha-256 of what was put is {found.sha256}, but {upload.sha256} was announced"
        )
    return None


def upload_has_room(pending: int, context: DecisionContext) -> Refused | None:
    """Refuse an upload if too many are pending; unused uploads stay pending until they expire."""
    if pending < context.most_uploads:
        return None
    return Refused(Code.TOO_MANY_REQUESTS, f"{pending} uploads are already pending in this store")


def alive(view: Lookup, session: str, created_revision: int) -> bool:
    """Return whether the session that was created at revision ``created_revision`` is alive."""
    record = view.session(session)
    return isinstance(record, Session) and record.created_revision == created_revision and not record.ended
