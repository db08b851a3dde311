"""This module defines the contract of a blob store: immutable bytes under fresh keys.

A blob is written once, whole or not at all, and never overwritten. Keys are paths of safe segments (`check_key`) and
carry the term of the leadership that wrote them. Every call refuses any other key with `UnsafeKey`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

PATIENCE_SECONDS: Final = 2.0
"""How long a store repeats what failed for a moment while it writes a blob, unless its caller says otherwise.

That is less than the SDK waits for an answer before it asks again by itself.
"""


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """A listed blob: its key, its size in bytes, and the seconds since it was completed, by the store's own clock."""

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
        """Connect to the store, or open its directory, and check that reading and writing is possible. Idempotent.

        Raises `Misconfigured`, `StorageUnavailable`. A full store opens: its blobs can be read, and deleted.
        """

    async def close(self) -> None:
        """Release every resource. Idempotent."""

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = PATIENCE_SECONDS) -> int:
        """Write ``stream`` under a fresh ``key`` durably, and return its size in bytes.

        A request that failed for a moment, or whose answer was lost, is repeated for ``patience`` seconds from the
        first attempt on, where that is safe: the store knows by a mark of its own whether the first one wrote the blob.
        A refusal is not repeated.

        If the stream raises, or the task is cancelled, nothing is left visible under ``key`` and the exception passes
        through unchanged. Never buffers the whole stream.

        Raises `BlobExists` (what is there stays), `StorageFull`, `StorageUnavailable`.
        """

    def get(self, key: str, start: int = 0, end: int | None = None, *, size: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes from ``start`` up to but without ``end``, in chunks; clipped to the blob as a slice would be.

        A request that failed for a moment is repeated for some seconds, and reading goes on where it broke.

        Raises before the first chunk, also for an empty range: `BlobMissing`, and `BlobSizeDiffers` for a blob that
        has not ``size`` bytes, if that is given. Raises later `BlobTruncated` if the blob turns out shorter than its
        size, and `StorageUnavailable`.
        """

    async def size(self, key: str) -> int:
        """Return the size of the blob in bytes. Raises `BlobMissing`, `StorageUnavailable`."""

    async def delete(self, key: str) -> None:
        """Delete the blob; it is no error if it is already gone. Raises `StorageUnavailable`."""

    def list(self, prefix: str, older_than: float) -> AsyncIterator[BlobInfo]:
        """Yield the blobs whose key begins with ``prefix`` and that were completed ``older_than`` seconds ago or more.

        They come in any order. A blob that is put or deleted meanwhile may be listed or not. Raises
        `StorageUnavailable`.
        """

    async def sign_put(self, key: str, size: int, sha256: str, seconds: float) -> SignedRequest | None:
        """Return a request by which somebody else may write exactly these bytes under the fresh ``key``.

        None means that this store cannot sign. ``sha256`` is lower-case hex. The store refuses the request if ``key``
        is taken by then, and, where it can tell, if the body differs. Raises `StorageUnavailable` if the credentials
        cannot be obtained now.
        """

    async def sign_get(self, key: str, seconds: float) -> SignedRequest | None:
        """Return a request by which somebody else may read the blob, also in ranges; None if the store cannot sign.

        It does not say whether the blob is there. Raises `StorageUnavailable`.
        """

    async def checked_digest(self, key: str) -> str | None:
        """Return the SHA-256 that the store itself checked the whole blob against, in lower-case hex; None if unknown.

        Raises `BlobMissing`, `StorageUnavailable`.
        """
