"""Operations on uploads, by which a client puts bytes directly into the blob store, with a signed URL."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from milepost.wire import Code, Outcome
from milepost_backends.contract import (
    BlobMissing,
    BlobStore,
    BlobTruncated,
    SignedRequest,
    StorageUnavailable,
    UnsafeKey,
)
from milepost_server.basics.problems import problem
from milepost_server.blobs.keys import blob_key
from milepost_server.journal import Journal
from milepost_server.journal.attempts import MaySubmit
from milepost_server.model.records import Upload
from milepost_server.model.requests.base import BlobRef, Request, UploadRef
from milepost_server.model.requests.handles import CreateUpload
from milepost_server.replica.leases import UploadLeases
from milepost_server.replica.submitter import Caller, Reply, Submitter, reply_of

_LEAST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to an upload by its id, with the size and digest that the client states.

    ``size`` is in bytes, ``sha256`` in lower-case hexadecimal digits.
    """

    upload: str
    size: int
    sha256: str


class UploadOperations:
    """The operations that announce an upload, and that use its bytes for a handle.

    A signed URL is valid for ``upload_seconds``. A state has at most ``max_state_bytes`` bytes; None sets no limit.
    """

    def __init__(
        self,
        journal: Journal,
        blobs: BlobStore,
        leases: UploadLeases,
        submitter: Submitter,
        clock: Callable[[], float],
        upload_seconds: float,
        max_state_bytes: int | None,
    ) -> None:
        self._journal = journal
        self._blobs = blobs
        self._leases = leases
        self._submitter = submitter
        self._clock = clock
        self._upload_seconds = upload_seconds
        self._max_state_bytes = max_state_bytes

    async def create(self, caller: Caller, store: str, size: int, sha256: str) -> Reply:
        """Announce bytes, and return a signed URL to put them. The URL is not stored, so a retry gets a new URL.

        Raises ``not-supported`` if the blob store cannot sign; ``upload-unknown`` with outcome ``applied`` for a retry
        whose upload was used up meanwhile, or has expired.
        """
        journal, limit, seconds = self._journal, self._max_state_bytes, self._upload_seconds
        if limit is not None and size > limit:
            raise problem(Code.TOO_LARGE, f"a state may have at most {limit} bytes here")
        if not journal.lease_holds():
            raise problem(Code.NO_LEADER, "this replica does not lead")
        generation = journal.generation
        blob = BlobRef(blob_key(journal.deployment, store, journal.term), size, sha256)

        async def attempt(may_submit: MaySubmit) -> Reply:
            began = self._clock()
            signed = await self._signed(blob, seconds)
            request = CreateUpload(caller.attempt, store, secrets.token_hex(16), blob, seconds)
            reply = reply_of(await self._submitter.submit_and_wait(request, generation, may_submit))
            if reply.answer.body["upload"] != request.upload:
                began = self._clock()
                signed = await self._signed_again(store, reply.answer.body["upload"])
            return _with_url(reply, signed, self._clock() - began)

        return await self._submitter.deduplicated(caller, store, attempt)

    async def add_or_replace(
        self, caller: Caller, store: str, reference: Reference, request_of: Callable[[BlobRef, UploadRef], Request]
    ) -> Reply:
        """Check the bytes of an upload, then make a handle point to them, by the request that ``request_of`` makes of
        the announced blob and the upload. If the request fails, the bytes are kept for another attempt.
        """
        announced = BlobRef("", reference.size, reference.sha256)

        async def attempt(may_submit: MaySubmit) -> Reply:
            ref = UploadRef(reference.upload, await self._found(store, reference))
            return reply_of(await self._submitter.submit_and_wait(request_of(announced, ref), None, may_submit))

        return await self._submitter.deduplicated(caller, store, attempt)

    async def _found(self, store: str, reference: Reference) -> BlobRef | None:
        """Return the blob that was put for a pending upload; None if there is no blob, or if the upload is not pending.
        The rules check later again whether the upload is pending.
        """
        upload = self._journal.read().view.upload(store, reference.upload)
        if not isinstance(upload, Upload) or upload.ended:
            return None
        return await _found_at(self._blobs, upload.blob, upload.size)

    async def _signed_again(self, store: str, upload_id: str) -> SignedRequest:
        """Sign a URL for the upload that an earlier attempt announced, valid for the time that the upload has left."""
        upload = self._journal.read().view.upload(store, upload_id)
        if not isinstance(upload, Upload) or upload.ended:
            detail = f"upload {upload_id!r}, which was made under this idempotency key, was used or has expired"
            raise problem(Code.UPLOAD_UNKNOWN, detail, outcome=Outcome.APPLIED)
        left = max(_LEAST_SECONDS, self._leases.expires_in(store, upload_id))
        blob = BlobRef(upload.blob, upload.size, upload.sha256)
        return await self._signed(blob, min(left, upload.ttl), Outcome.APPLIED)

    async def _signed(self, blob: BlobRef, seconds: float, outcome: Outcome = Outcome.NOT_APPLIED) -> SignedRequest:
        """Sign a URL to put a blob; the URL is valid for ``seconds``. If signing fails, the problem that is raised has
        the outcome ``outcome``: ``applied`` if the upload was announced already.
        """
        try:
            signed = await self._blobs.sign_put(blob.key, blob.size, blob.sha256, seconds)
        except StorageUnavailable as error:
            raise problem(Code.STORAGE_UNAVAILABLE, str(error), outcome=outcome) from error
        if signed is None:
            raise problem(Code.NOT_SUPPORTED, "the blob store of this deployment cannot sign uploads", outcome=outcome)
        return signed


def _with_url(reply: Reply, signed: SignedRequest, elapsed: float) -> Reply:
    body = {
        **reply.answer.body,
        "method": signed.method,
        "url": signed.url,
        "headers": dict(signed.headers),
        "expires_in": max(0.0, signed.expires_in - elapsed),
    }
    return replace(reply, answer=replace(reply.answer, body=body))


async def _found_at(blobs: BlobStore, key: str, size: int) -> BlobRef | None:
    """Return the blob that is stored under ``key``; None if there is none, or not all of its bytes can be read. Its
    digest is empty if its size is not ``size``.

    The blob cannot change after this check, since no blob is ever overwritten. Raises ``storage-unavailable`` and
    ``corrupt`` problems.
    """
    try:
        actual = await blobs.size(key)
        if actual != size:
            return BlobRef(key, actual, "")
        return BlobRef(key, actual, await blobs.checked_digest(key) or await _read_through(blobs, key))
    except (BlobMissing, BlobTruncated):
        return None
    except UnsafeKey as error:
        raise problem(Code.CORRUPT, f"the record of the upload names a key that no blob can have: {error}") from error
    except StorageUnavailable as error:
        raise problem(Code.STORAGE_UNAVAILABLE, str(error)) from error


async def _read_through(blobs: BlobStore, key: str) -> str:
    digest = hashlib.sha256()
    async for chunk in blobs.get(key):
        digest.update(chunk)
    return digest.hexdigest()
