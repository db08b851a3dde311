"""Take bytes in: write them under a fresh key, count and hash them as they pass, and never hold them whole."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from backends.contract import PATIENCE_SECONDS, BlobExists, BlobStore, StorageFull, StorageUnavailable
from milepost.wire import Code
from service.basics.problems import problem
from service.rules.requests import BlobRef


@dataclass(frozen=True, slots=True)
class Incoming:
    """A body that comes in: its chunks, and what was announced of it (size in bytes, lower-case hex SHA-256), if so."""

    chunks: AsyncIterator[bytes]
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """The beginning of a body that was read: ``data`` if that was all of it, else ``rest``, which is still whole."""

    data: bytes | None
    rest: Incoming

    @property
    def sha256(self) -> str:
        """The digest of ``data``."""
        return hashlib.sha256(self.data or b"").hexdigest()


async def begin(incoming: Incoming, most: int, limit: int | None) -> Begun:
    """Read a body until it has ended or has ``most`` bytes. One that has ended is checked as `take_in` checks one."""
    if limit is not None and incoming.size is not None and incoming.size > limit:
        raise _too_large(limit)
    chunks, taken = aiter(incoming.chunks), bytearray()
    while len(taken) < most:
        chunk = await anext(chunks, None)
        if chunk is None:
            if limit is not None and len(taken) > limit:
                raise _too_large(limit)
            begun = Begun(bytes(taken), incoming)
            _check(incoming, len(taken), begun.sha256)
            return begun
        taken += chunk

    async def whole() -> AsyncIterator[bytes]:
        if taken:
            yield bytes(taken)
        async for chunk in chunks:
            yield chunk

    return Begun(None, Incoming(whole(), incoming.size, incoming.sha256))


async def take_in(
    blobs: BlobStore, key: str, incoming: Incoming, limit: int | None, patience: float = PATIENCE_SECONDS
) -> BlobRef:
    """Write a body under ``key`` and return what it is. For ``patience`` see `BlobStore.put`.

    Raises problems: ``incomplete-body``, ``digest-mismatch``, ``too-large``, ``storage-full``,
    ``storage-unavailable``. Nothing is left under the key then: the checks run inside the stream, before the store
    publishes the blob.
    """
    if limit is not None and incoming.size is not None and incoming.size > limit:
        raise _too_large(limit)
    digest = hashlib.sha256()
    size = 0

    async def counted() -> AsyncIterator[bytes]:
        nonlocal size
        async for chunk in incoming.chunks:
            size += len(chunk)
            if limit is not None and size > limit:
                raise _too_large(limit)
            digest.update(chunk)
            yield chunk
        _check(incoming, size, digest.hexdigest())

    try:
        await blobs.put(key, counted(), patience=patience)
    except StorageFull as error:
        raise problem(Code.STORAGE_FULL, str(error)) from error
    except (StorageUnavailable, BlobExists) as error:  # keys are fresh, and another attempt gets another key
        raise problem(Code.STORAGE_UNAVAILABLE, str(error)) from error
    return BlobRef(key, size, digest.hexdigest())


def _check(incoming: Incoming, size: int, sha256: str) -> None:
    if incoming.size is not None and size != incoming.size:
        raise problem(Code.INCOMPLETE_BODY, f"{size} of {incoming.size} announced bytes arrived")
    if incoming.sha256 is not None and sha256 != incoming.sha256:
        raise problem(Code.DIGEST_MISMATCH, f"the body's sha-256 is {sha256}, but {incoming.sha256} was announced")


def _too_large(limit: int) -> Exception:
    return problem(Code.TOO_LARGE, f"a state may have at most {limit} bytes here")
