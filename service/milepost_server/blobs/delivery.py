"""Delivers the bytes of a state to a reader. The last bytes of a whole state are sent only if all of its bytes match
the recorded digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from milepost.errors import BlobMissing as BlobMissingProblem
from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import (
    BackendError,
    BlobMissing,
    BlobSizeDiffers,
    BlobStore,
    BlobTruncated,
    StorageUnavailable,
    UnsafeKey,
)
from milepost_server.basics.pieces import stream_of
from milepost_server.basics.problems import problem
from milepost_server.model.requests.base import BlobRef
from milepost_server.model.trees import Entry

VERIFIED_AHEAD_BYTES = 1024 * 1024
"""States up to this size in bytes are verified before the first byte is sent. Of a larger state, the end is held back
until all of it is verified.
"""

AHEAD_BYTES = 1024 * 1024
"""The most bytes of a state that are in memory while its reader does not read, without those in the connection's own
buffer. They are the part that is held back and the part that was read ahead; or all of a small state.
"""

MISMATCH = "the stored bytes do not match their digest"


class DeliveryCut(Exception):
    """Raised if the bytes are found to be damaged after some of them were sent, so that the connection must be cut."""


async def deliver(blobs: BlobStore, ref: BlobRef, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
    """Return the bytes ``[start, end)`` of a state as a stream that is ready to be sent.

    The recorded digest is that of the whole state. So a state of up to `VERIFIED_AHEAD_BYTES` is read and verified as a
    whole, even if a part of it is requested. A larger state is verified while it is sent, if all of it is requested; a
    part of it is not verified.

    Raises problems before the first byte if possible: ``blob-missing``, ``corrupt``, ``storage-unavailable``.
    Afterwards the stream raises `DeliveryCut`, before its last byte.
    """
    stop = ref.size if end is None else end
    with errors_as_problems():
        whole = start == 0 and stop == ref.size
        if ref.size <= VERIFIED_AHEAD_BYTES:
            return stream_of((await _verified(blobs, ref))[start:stop])
        chunks = await begun(blobs.get(ref.key, start, None if whole else stop, size=ref.size))
        return _held_back(chunks, ref.sha256) if whole else cut_where_it_fails(chunks, stop - start)


async def deliver_rest(blobs: BlobStore, ref: BlobRef, start: int) -> AsyncIterator[bytes]:
    """Return the bytes of a state from ``start`` to the end. The whole state is read and verified as in `deliver`.

    If the delivery of a damaged state was cut, its reader asks for the rest next, and must not get the damaged bytes
    that way. Raises the problems of `deliver`.
    """
    if start in (0, ref.size):
        return await deliver(blobs, ref, start)
    return _skipping(await deliver(blobs, ref), start)


async def _read_piece(blobs: BlobStore, key: str, start: int, size: int, sha256: str) -> bytes:
    """Read the bytes of a small file from a blob that contains several small files, and verify them. Raises the
    problems of `deliver`.
    """
    with errors_as_problems():
        data = b"".join([chunk async for chunk in blobs.get(key, start, start + size)])
    if len(data) != size:
        raise problem(Code.CORRUPT, MISMATCH)
    check_bytes(data, sha256)
    return data


def check_bytes(data: bytes | bytearray, sha256: str) -> None:
    """Verify that stored bytes match a digest in lower-case hex. Raises a ``corrupt`` problem."""
    _check_digest(hashlib.sha256(data).hexdigest(), sha256)


async def verify(blobs: BlobStore, ref: BlobRef) -> None:
    """Read the bytes of a state, and verify that they are those that were written.

    Raises problems: ``blob-missing``, ``corrupt``, ``storage-unavailable``.
    """
    with errors_as_problems():
        found = hashlib.sha256()
        async for chunk in blobs.get(ref.key, size=ref.size):
            found.update(chunk)
    _check_digest(found.hexdigest(), ref.sha256)


async def stored_size(blobs: BlobStore, key: str) -> int:
    """Return the size of a blob in bytes. Raises problems: ``blob-missing``, ``corrupt``, ``storage-unavailable``."""
    with errors_as_problems():
        return await blobs.size(key)


async def locate(blobs: BlobStore, ref: BlobRef, seconds: float) -> str | None:
    """Return a URL from which the bytes of a state can be fetched for ``seconds``; None if the blob store cannot sign
    such a URL.

    Raises the problems that `deliver` raises before the first byte.
    """
    with errors_as_problems():
        BlobSizeDiffers.check(await blobs.size(ref.key), ref.size)
        signed = await blobs.sign_get(ref.key, seconds)
        # a URL that needs headers is useless for a redirect, which cannot tell the client to send them
        return signed.url if signed is not None and not signed.headers else None


def _check_digest(found: str, written: str) -> None:
    if found != written:
        raise problem(Code.CORRUPT, MISMATCH)


@contextmanager
def errors_as_problems() -> Iterator[None]:
    """In the block, which reads from a blob store, turn the errors of the blob store into problems."""
    try:
        yield
    except BlobMissing as error:
        raise problem(Code.BLOB_MISSING, "the bytes of this state are gone") from error
    except BlobSizeDiffers as error:
        detail = f"{error.found} bytes are stored, but the record says {error.expected}"
        raise problem(Code.CORRUPT, detail) from error
    except BlobTruncated as error:
        raise problem(Code.CORRUPT, f"fewer bytes are stored than the record says: {error}") from error
    except UnsafeKey as error:
        raise problem(Code.CORRUPT, f"the record names a key that no blob can have: {error}") from error
    except StorageUnavailable as error:
        raise problem(Code.STORAGE_UNAVAILABLE, str(error)) from error


def is_missing(error: Exception) -> bool:
    """Return whether a delivery failed because the blob does not exist, perhaps because its handle or file was just
    replaced.
    """
    return isinstance(error, BlobMissingProblem)


async def _verified(blobs: BlobStore, ref: BlobRef) -> bytes:
    data = bytearray()
    async for chunk in blobs.get(ref.key, size=ref.size):
        data += chunk
    check_bytes(data, ref.sha256)
    return bytes(data)


async def begun(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Read the first chunk, and return a stream of all chunks. So a missing blob is noticed before anything is sent."""
    first = await anext(chunks, None)

    async def from_the_first() -> AsyncIterator[bytes]:
        nonlocal first
        if first is not None:
            # free the memory of the first chunk, since delivering the other chunks may take long
            chunk, first = first, None
            yield chunk
        async for chunk in chunks:
            yield chunk

    return from_the_first()


async def cut_where_it_fails(chunks: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """Yield ``chunks``. Raises `DeliveryCut` if reading them fails, or if their total is not ``size`` bytes."""
    sent = 0
    try:
        async for chunk in chunks:
            sent += len(chunk)
            yield chunk
    except (BackendError, Problem) as error:
        raise DeliveryCut(str(error)) from error
    if sent != size:
        raise DeliveryCut(f"{sent} of {size} bytes could be read")


async def _skipping(chunks: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        if len(chunk) > most:
            yield chunk[most:]
        most = max(0, most - len(chunk))


async def _held_back(chunks: AsyncIterator[bytes], sha256: str) -> AsyncIterator[bytes]:
    """Yield each chunk one step late, and the last chunk only once the digest of all chunks matches ``sha256``. Raises
    `DeliveryCut` if it does not, or if reading fails.
    """
    digest = hashlib.sha256()
    last: bytes | None = None
    try:
        async for chunk in chunks:
            digest.update(chunk)
            if last is not None:
                yield last
            last = chunk
    except (BlobMissing, BlobTruncated, StorageUnavailable) as error:
        raise DeliveryCut(str(error)) from error
    if last is None or digest.hexdigest() != sha256:
        raise DeliveryCut(MISMATCH)
    yield last


def blob_ref(entry: Entry) -> BlobRef:
    """Return the reference to the bytes of a file that has its own blob."""
    return BlobRef(entry.blob, entry.size, entry.sha256)


async def bytes_of_small(blobs: BlobStore, entry: Entry) -> bytes:
    """Return the bytes of a file that does not have its own blob: from its entry, or from a blob that contains several
    small files.

    Raises problems: ``blob-missing``, ``corrupt``, ``storage-unavailable``.
    """
    if entry.start is None:
        return entry.data or b""
    return await _read_piece(blobs, entry.blob, entry.start, entry.size, entry.sha256)
