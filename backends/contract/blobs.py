"""Blob stores: immutable bytes under fresh keys.

A blob is written once, whole or not at all, and never overwritten. Keys are paths of safe segments (`check_key`) and
carry the term of the leadership that wrote them. Every call refuses any other key with `UnsafeKey`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """A blob as listed: key, size in bytes, and age in seconds since it was completed (by the store's own clock)."""

    key: str
    size: int
    age: float


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """One HTTP request that whoever holds it may send, with exactly these headers, for ``expires_in`` seconds.

    The URL carries a signature: it is a secret for that long, and never logged.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str]
    expires_in: float


class BlobStore(Protocol):
    """Immutable bytes."""

    async def open(self) -> None:
        """Connect or open, and check that reading and writing is possible. Idempotent.

        Raises `Misconfigured`, `StorageUnavailable`. A full store opens: it can be read, and room can be made.
        """

    async def close(self) -> None:
        """Let go of every resource. Idempotent."""

    async def put(self, key: str, stream: AsyncIterator[bytes]) -> int:
        """Write ``stream`` under a fresh ``key`` durably and return its size in bytes.

        If the stream raises, or the task is cancelled, nothing is left visible under ``key`` and the exception passes
        through unchanged. Never buffers the whole stream.

        Raises `BlobExists` (what is there stays), `StorageFull`, `StorageUnavailable`.
        """

    def get(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from ``start`` up to but without ``end``, in chunks; clipped to the blob as a slice would be.

        Raises `BlobMissing` before the first chunk, also for an empty range; later `BlobTruncated` if the blob turns
        out shorter than its size, `StorageUnavailable`.
        """

    async def size(self, key: str) -> int:
        """Size in bytes. Raises `BlobMissing`, `StorageUnavailable`."""

    async def delete(self, key: str) -> None:
        """Discard the blob; a blob that is already gone is fine. Raises `StorageUnavailable`."""

    def list(self, prefix: str, older_than: float) -> AsyncIterator[BlobInfo]:
        """Blobs whose key begins with ``prefix`` and that were completed at least ``older_than`` seconds ago.

        In any order. A blob that is put or deleted meanwhile may be listed or not. Raises `StorageUnavailable`.
        """

    async def sign_put(self, key: str, size: int, sha256: str, seconds: float) -> SignedRequest | None:
        """A request by which somebody else may write exactly these bytes under the fresh ``key``; None: cannot sign.

        ``sha256`` is lower-case hex. The store refuses the request if ``key`` is taken by then, and, where it can tell,
        if the body is another one. Raises `StorageUnavailable` (credentials cannot be had now).
        """

    async def sign_get(self, key: str, seconds: float) -> SignedRequest | None:
        """A request by which somebody else may read the blob, also in ranges; None: cannot sign.

        Says nothing of whether the blob is there. Raises `StorageUnavailable`.
        """

    async def checked_digest(self, key: str) -> str | None:
        """The SHA-256, in lower-case hex, that the store itself checked the whole blob against; None: not known.

        Raises `BlobMissing`, `StorageUnavailable`.
        """
