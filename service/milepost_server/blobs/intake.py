"""Takes in the body of a request: writes it as a stream to a blob with a fresh key, and counts and hashes its bytes
chunk by chunk.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from milepost.wire import Code
from milepost_backends.contract import (
    PATIENCE_SECONDS,
    BackendError,
    BlobExists,
    BlobStore,
    StorageFull,
    StorageUnavailable,
)
from milepost_server.basics.pieces import stream_of, whole_of
from milepost_server.basics.problems import problem
from milepost_server.basics.waiting import within
from milepost_server.blobs.keys import list_of
from milepost_server.blobs.range_digests import LISTED_ABOVE_BYTES, RangeHasher
from milepost_server.model.requests.base import BlobRef

log = logging.getLogger("milepost.blobs")

_LIST_SECONDS = 5.0
"""The seconds that writing a list of digests may take. It is short, since a client waits for its answer meanwhile."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """The body of a request while it comes in: its chunks, and the size in bytes and the SHA-256 (lower-case hex) that
    the client announced, if any.
    """

    chunks: AsyncIterator[bytes]
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """The beginning of a body, which `begin` has read. A short body is completely in ``data``, which is None for a
    longer one. Of a longer body, ``rest`` yields all bytes, including those that were read.
    """

    data: bytes | None
    rest: Incoming
    sha256: str = ""
    """The SHA-256 of ``data`` in lower-case hex."""


async def begin(incoming: Incoming, most: int, limit: int | None) -> Begun:
    """Read a body until its end, or until ``most`` bytes were read. ``limit`` is the most bytes that a body may have;
    None is no limit.

    A body that has ended is compared with its announced size and digest. Raises problems: ``incomplete-body``,
    ``digest-mismatch``, ``too-large``.
    """
    if limit is not None and incoming.size is not None and incoming.size > limit:
        raise _too_large(limit)
    if (data := whole_of(incoming.chunks)) is not None and len(data) < most:
        return _ended(incoming, data, limit)
    chunks, taken = aiter(incoming.chunks), bytearray()
    while len(taken) < most:
        chunk = await anext(chunks, None)
        if chunk is None:
            return _ended(incoming, bytes(taken), limit)
        taken += chunk

    async def whole() -> AsyncIterator[bytes]:
        if taken:
            yield bytes(taken)
        async for chunk in chunks:
            if chunk:
                yield chunk

    return Begun(None, Incoming(whole(), incoming.size, incoming.sha256))


def _ended(incoming: Incoming, data: bytes, limit: int | None) -> Begun:
    """Return a body that has ended, after it was compared with what was announced."""
    if limit is not None and len(data) > limit:
        raise _too_large(limit)
    sha256 = hashlib.sha256(data).hexdigest()
    _check(incoming, len(data), sha256)
    return Begun(data, incoming, sha256)


async def take_in(
    blobs: BlobStore, key: str, incoming: Incoming, limit: int | None, patience: float = PATIENCE_SECONDS
) -> BlobRef:
    """Write a body to the blob ``key``, and return the reference to it.

    ``limit`` is the most bytes that the body may have; None is no limit. ``patience`` is the number of seconds for
    which the blob store repeats failed requests (`BlobStore.put`). If the body is large and ``key`` is that of a file,
    a list of the digests of its ranges is written to a second blob, unless that fails.

    Raises problems: ``incomplete-body``, ``digest-mismatch``, ``too-large``, ``storage-full``, ``storage-unavailable``.
    After a problem, there is no blob under the key: the body is checked inside the stream, before the blob store makes
    the blob visible.
    """
    if limit is not None and incoming.size is not None and incoming.size > limit:
        raise _too_large(limit)
    digest, ranges = hashlib.sha256(), None if list_of(key) is None else RangeHasher()
    size = 0

    async def counted() -> AsyncIterator[bytes]:
        nonlocal size
        async for chunk in incoming.chunks:
            size += len(chunk)
            if limit is not None and size > limit:
                raise _too_large(limit)
            digest.update(chunk)
            if ranges is not None:
                ranges.update(chunk)
            yield chunk
        _check(incoming, size, digest.hexdigest())

    try:
        await blobs.put(key, counted(), patience=patience)
    except StorageFull as error:
        raise problem(Code.STORAGE_FULL, str(error)) from error
    except (StorageUnavailable, BlobExists) as error:
        # `BlobExists`, too, since the key was fresh: only an earlier try of this put can have written the blob
        raise problem(Code.STORAGE_UNAVAILABLE, str(error)) from error
    ref = BlobRef(key, size, digest.hexdigest())
    if ranges is not None and size > LISTED_ABOVE_BYTES:
        await _put_list(blobs, ref, ranges)
    return ref


async def _put_list(blobs: BlobStore, ref: BlobRef, ranges: RangeHasher) -> None:
    """Write the digests of a file's ranges to a blob of their own. A failure is only logged, since a file without this
    list can still be read, but more slowly.
    """
    key = list_of(ref.key)
    assert key is not None
    content = ranges.digests().sealed(ref.size, ref.sha256)
    try:
        await within(_LIST_SECONDS, blobs.put(key, stream_of(content)))
    except (BackendError, TimeoutError) as error:
        log.warning("there is no list of digests %s, so parts of its file are slow to read: %s", key, error)


def _check(incoming: Incoming, size: int, sha256: str) -> None:
    if incoming.size is not None and size != incoming.size:
        raise problem(Code.INCOMPLETE_BODY, f"{size} of {incoming.size} announced bytes arrived")
    if incoming.sha256 is not None and sha256 != incoming.sha256:
        raise problem(Code.DIGEST_MISMATCH, f"the body's sha-256 is {sha256}, but {incoming.sha256} was announced")


def _too_large(limit: int) -> Exception:
    return problem(Code.TOO_LARGE, f"a state may have at most {limit} bytes here")
