"""The contract of a blob store: immutable bytes under fresh keys.

A key is a path of segments, with the same rules for every blob store. A segment is 1 to 200 characters of ``A-Z a-z 0-9
. _ -`` without a leading dot. So a key cannot leave the directory or prefix of its store, and a backend may keep its
own files under names with a leading dot. A key has at most 900 characters, since S3 allows 1,024, which include the
prefix of the store. No key in use is a directory of another key.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from milepost_backends.contract.errors import UnsafeKey

PATIENCE_SECONDS: Final = 2.0
"""The seconds for which a store by default repeats a failed request while it writes a blob.

This is less than the time after which the SDK itself repeats a request.
"""

MAX_KEY_LENGTH: Final = 900

_SEGMENT: Final = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}"
_KEY: Final = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*\Z")
_PREFIX: Final = re.compile(rf"(?:{_SEGMENT}/)*(?:{_SEGMENT})?\Z")


def check_key(key: str) -> str:
    """Return ``key`` if it is a path of safe segments of at most 900 characters. Raises `UnsafeKey`."""
    if len(key) > MAX_KEY_LENGTH or not _KEY.match(key):
        raise UnsafeKey(f"{key[:MAX_KEY_LENGTH]!r} is not a path of safe segments")
    return key


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if a safe key can begin with it. Raises `UnsafeKey`."""
    if len(prefix) > MAX_KEY_LENGTH or not _PREFIX.match(prefix):
        raise UnsafeKey(f"{prefix[:MAX_KEY_LENGTH]!r} is not the beginning of a path of safe segments")
    return prefix


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """A blob in a listing: its key, its size in bytes, and its age.

    The age is the number of seconds since the blob was completely written, by the clock of the storage and not of this
    machine.
    """

    key: str
    size: int
    age: float


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A signed request lets its holder send one HTTP request, with exactly these headers, for ``expires_in`` seconds.

    The URL carries a signature: it is a secret for that long, and never logged.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str]
    expires_in: float


class BlobStore(Protocol):
    """A blob store keeps immutable bytes under fresh keys."""

    async def open(self) -> None:
        """Connect to the storage, or open its directory, and check that blobs can be written and read. Idempotent.

        If the storage is full, the blob store opens all the same: its blobs can be read, and deleted. Raises
        `Misconfigured`, `StorageUnavailable`.
        """

    async def close(self) -> None:
        """Release every resource, such as connections and threads. Idempotent."""

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = PATIENCE_SECONDS) -> int:
        """Write ``stream`` under a fresh ``key`` durably, and return its size in bytes.

        If a request to the storage server fails for a moment, or its answer is lost, the blob store repeats it for
        ``patience`` seconds from the first attempt on. It does so only where it can tell whether an earlier attempt
        wrote the blob. It does not repeat a request that was refused.

        If the stream raises, or the task is cancelled, nothing is left visible under ``key`` and the exception passes
        through unchanged. The whole stream is never held in memory.

        Raises `BlobExists` (the existing blob stays), `StorageFull`, `StorageUnavailable`.
        """

    def get(self, key: str, start: int = 0, end: int | None = None, *, size: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of the blob ``key`` from ``start`` up to, but not including, ``end``, in chunks.

        The range is clipped to the blob, as in a slice of Python. The blob store repeats a request that failed for a
        moment for some seconds, and resumes reading at the byte where the connection broke.

        Before the first chunk, also for an empty range, it raises `BlobMissing`, or `BlobSizeDiffers` if ``size`` is
        given and the blob has another size. Later it raises `BlobTruncated` if the blob turns out shorter than its
        size, and `StorageUnavailable`.
        """

    async def size(self, key: str) -> int:
        """Return the size of the blob ``key`` in bytes. Raises `BlobMissing`, `StorageUnavailable`."""

    async def delete(self, key: str) -> None:
        """Delete the blob ``key``. An absent blob is no error. Raises `StorageUnavailable`."""

    def list(self, prefix: str, older_than: float) -> AsyncIterator[BlobInfo]:
        """Yield the blobs whose key begins with ``prefix`` and that were completed at least ``older_than`` seconds ago.

        The order is undefined. A blob that is put or deleted while the list is read may be in it or not. Raises
        `StorageUnavailable`.
        """

    async def sign_put(self, key: str, size: int, sha256: str, seconds: float) -> SignedRequest | None:
        """Return a signed request with which a client may write one blob under the fresh ``key`` for ``seconds``.

        The client must send ``size`` bytes with the digest ``sha256`` (lower-case hex). The storage refuses the
        client's request if ``key`` is taken by then, and also if the body has another digest, provided that it checks
        digests.

        None means that this blob store cannot sign. Raises `StorageUnavailable` if the credentials cannot be obtained
        now.
        """

    async def sign_get(self, key: str, seconds: float) -> SignedRequest | None:
        """Return a signed request with which a client may read the blob ``key``, also in ranges, for ``seconds``.

        None means that this blob store cannot sign. The blob need not exist: this call does not look for it. Raises
        `StorageUnavailable`.
        """

    async def checked_digest(self, key: str) -> str | None:
        """Return the SHA-256 of the whole blob ``key``, in lower-case hex, if the storage itself has checked the bytes
        against it when they were written.

        None means that the storage knows no such digest. Raises `BlobMissing`, `StorageUnavailable`.
        """
