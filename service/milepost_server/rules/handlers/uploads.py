"""Decide uploads, bytes that a client puts itself: a durable record announces the bytes, and a handle takes them."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model.records import Corrupt, Store, Upload, upload_key
from milepost_server.model.requests.handles import Add, CreateUpload, ExpireUpload, Replace
from milepost_server.rules import guards, replays
from milepost_server.rules.decisions import Accepted, Answer, Changes, Decision, DecisionContext, Handlers, Refused


class UploadSource(NamedTuple):
    """The place of a request's bytes, and the changes that its commit makes besides the handle."""

    blob: str
    data: bytes | None
    changes: Changes


def create_upload(view: View, request: CreateUpload, context: DecisionContext) -> Decision:
    """Announce an upload. This needs no epoch, since the request for the handle that takes the bytes does."""
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
    """Return the bytes for a handle; if they are those of an upload, the same commit uses the upload up."""
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
    """End an upload that has expired. Its blob becomes an orphan, and the record still names the blob."""
    upload = view.upload(request.store_name, request.upload)
    if not isinstance(upload, Upload) or upload.ended:
        return Accepted(Answer())
    ended = replace(upload, ended=context.revision)
    return Accepted(Answer(), {upload_key(request.store_name, upload.id): ended}, orphans=(upload.blob,))


HANDLERS: Final[Handlers] = {
    CreateUpload: create_upload,
    ExpireUpload: expire_upload,
}
