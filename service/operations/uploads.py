"""Operations on uploads: bytes that a client puts into the blob store by itself, by a signed URL."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

from backends.contract import SignedRequest, StorageUnavailable
from milepost.wire import Code, Outcome
from service.blobs.inspection import found_at
from service.blobs.keys import blob_key
from service.journal.claims import MaySubmit
from service.leader import Replica
from service.operations.calls import Caller, Reply, attempted, decided, reply_of
from service.problems import problem
from service.rules.records import Upload
from service.rules.requests import BlobRef, CreateUpload, Request, UploadRef

_LEAST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Reference:
    """An upload by its id, and what is said of its bytes: size in bytes, lower-case hex SHA-256."""

    upload: str
    size: int
    sha256: str


async def create(replica: Replica, caller: Caller, store: str, size: int, sha256: str) -> Reply:
    """Announce bytes, and get a signed URL to put them. The URL is stored nowhere: a retry gets a new one.

    Raises ``not-supported`` where the blobs cannot sign; ``upload-unknown`` with outcome ``applied`` for a retry whose
    upload was used up meanwhile.
    """
    limit = replica.settings.max_state_bytes
    if limit is not None and size > limit:
        raise problem(Code.TOO_LARGE, f"a state may have at most {limit} bytes here")
    if not replica.leads:
        raise problem(Code.NO_LEADER, "this replica does not lead")
    generation, seconds = replica.journal.generation, replica.settings.upload_seconds
    blob = BlobRef(blob_key(replica.journal.deployment, store, replica.journal.term), size, sha256)

    async def act(may_submit: MaySubmit) -> Reply:
        began = replica.clock()
        signed = await _signed(replica, blob, seconds)
        request = CreateUpload(caller.session, caller.key, caller.attempt, store, secrets.token_hex(16), blob, seconds)
        reply = reply_of(await decided(replica, request, generation, may_submit))
        if reply.answer.body["upload"] != request.upload:
            began = replica.clock()
            signed = await _signed_again(replica, store, reply.answer.body["upload"])
        return _told(reply, signed, replica.clock() - began)

    return await attempted(replica, caller, store, act)


async def add_or_replace(
    replica: Replica,
    caller: Caller,
    store: str,
    reference: Reference,
    request_of: Callable[[BlobRef, UploadRef], Request],
) -> Reply:
    """Look at the bytes, then move the pointer. Bytes of an upload are never discarded for a request that failed."""
    announced = BlobRef("", reference.size, reference.sha256)

    async def act(may_submit: MaySubmit) -> Reply:
        ref = UploadRef(reference.upload, await _found(replica, store, reference))
        return reply_of(await decided(replica, request_of(announced, ref), None, may_submit))

    return await attempted(replica, caller, store, act)


async def _found(replica: Replica, store: str, reference: Reference) -> BlobRef | None:
    """What lies where the upload's bytes belong, if it is pending still: the rules judge that again, and the rest."""
    upload = replica.journal.read().view.upload(store, reference.upload)
    if not isinstance(upload, Upload) or upload.ended:
        return None
    return await found_at(replica.blobs, upload.blob, upload.size)


async def _signed_again(replica: Replica, store: str, upload_id: str) -> SignedRequest:
    """For the upload that an earlier attempt made, for the time that it has left."""
    upload = replica.journal.read().view.upload(store, upload_id)
    if not isinstance(upload, Upload) or upload.ended:
        detail = f"upload {upload_id!r}, which this key made, was used up, or its time is up"
        raise problem(Code.UPLOAD_UNKNOWN, detail, outcome=Outcome.APPLIED)
    left = max(_LEAST_SECONDS, replica.uploads.expires_in(store, upload_id))
    return await _signed(
        replica, BlobRef(upload.blob, upload.size, upload.sha256), min(left, upload.ttl), Outcome.APPLIED
    )


async def _signed(
    replica: Replica, blob: BlobRef, seconds: float, outcome: Outcome = Outcome.NOT_APPLIED
) -> SignedRequest:
    """``outcome`` is that of the announcement, if it cannot be signed now."""
    try:
        signed = await replica.blobs.sign_put(blob.key, blob.size, blob.sha256, seconds)
    except StorageUnavailable as error:
        raise problem(Code.STORAGE_UNAVAILABLE, str(error), outcome=outcome) from error
    if signed is None:
        raise problem(Code.NOT_SUPPORTED, "the blob store of this deployment cannot sign uploads", outcome=outcome)
    return signed


def _told(reply: Reply, signed: SignedRequest, elapsed: float) -> Reply:
    body = {
        **reply.answer.body,
        "method": signed.method,
        "url": signed.url,
        "headers": dict(signed.headers),
        "expires_in": max(0.0, signed.expires_in - elapsed),
    }
    return replace(reply, answer=replace(reply.answer, body=body))
