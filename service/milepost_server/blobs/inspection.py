"""Look at bytes that somebody else has put, before a pointer moves to them."""

from __future__ import annotations

import hashlib

from milepost.wire import Code
from milepost_backends.contract import BlobMissing, BlobStore, BlobTruncated, StorageUnavailable, UnsafeKey
from milepost_server.basics.problems import problem
from milepost_server.rules.requests import BlobRef


async def found_at(blobs: BlobStore, key: str, size: int) -> BlobRef | None:
    """Return what is stored under ``key``; None for nothing. Its digest is empty unless it has the expected ``size``.

    A blob that was seen whole stays so: keys are fresh, and no blob is ever overwritten. Raises
    ``storage-unavailable`` and ``corrupt`` problems.
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
