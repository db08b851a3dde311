"""The simulated blob store, and each process's way to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from milepost_backends.contract import (
    PATIENCE_SECONDS,
    BlobExists,
    BlobInfo,
    BlobMissing,
    BlobSizeDiffers,
    SignedRequest,
    StorageUnavailable,
)
from tests.simulation.world.loop import VirtualLoop
from tests.simulation.world.network import Broken, Line

T = TypeVar("T")


class BlobService:
    """Whole blobs under their keys. Each method is one atomic act. ``deleted`` is told of each deletion."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.deleted: Callable[[str], None] = lambda _: None
        self._loop = loop
        self._blobs: dict[str, tuple[bytes, float]] = {}

    def now(self) -> float:
        """The store's own time."""
        return self._loop.time()

    def put(self, key: str, data: bytes) -> int:
        """Keep a blob. Raises `BlobExists`."""
        if key in self._blobs:
            raise BlobExists(key)
        self._blobs[key] = (data, self._loop.time())
        return len(data)

    def get(self, key: str) -> bytes:
        """A blob. Raises `BlobMissing`."""
        if key not in self._blobs:
            raise BlobMissing(key)
        return self._blobs[key][0]

    def put_signed(self, url: str, data: bytes) -> None:
        """A client's own put. Whatever speaks against it, nobody is told: what counts is what lies there then.

        The store looks at the size alone, so other bytes may come to lie under a key than were announced.
        """
        key, size, until = url.split()
        if self._loop.time() < float(until) and len(data) == int(size) and key not in self._blobs:
            self.put(key, data)

    def get_signed(self, url: str) -> bytes | None:
        """A client's own get; None where nothing is any more, or the time is up."""
        key, until = url.split()
        return self._blobs[key][0] if self._loop.time() < float(until) and key in self._blobs else None

    def there_since(self, key: str) -> float | None:
        """When a blob was put; None if there is none."""
        return self._blobs[key][1] if key in self._blobs else None

    def keys(self) -> set[str]:
        """The keys of all blobs."""
        return set(self._blobs)

    def delete(self, key: str) -> None:
        """Discard a blob, if it is there."""
        if self._blobs.pop(key, None) is not None:
            self.deleted(key)

    def older_than(self, prefix: str, seconds: float) -> list[BlobInfo]:
        """The blobs of that age."""
        now = self._loop.time()
        return [
            BlobInfo(key, len(data), now - completed)
            for key, (data, completed) in self._blobs.items()
            if key.startswith(prefix) and now - completed >= seconds
        ]


class SimBlobs:
    """A `BlobStore`: the service as one process reaches it. A put that failed may still appear."""

    def __init__(self, service: BlobService, line: Line) -> None:
        self._service = service
        self._line = line

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = PATIENCE_SECONDS) -> int:
        """See `BlobStore.put`. It fails at once, so that more is seen of what its callers do then."""
        del patience
        data = b"".join([chunk async for chunk in stream])
        return await self._ask(lambda: self._service.put(key, data))

    async def get(
        self, key: str, start: int = 0, end: int | None = None, *, size: int | None = None
    ) -> AsyncIterator[bytes]:
        """See `BlobStore.get`."""
        whole = await self._ask(lambda: self._service.get(key))
        BlobSizeDiffers.check(len(whole), size)
        yield whole[start:end]

    async def size(self, key: str) -> int:
        """See `BlobStore.size`."""
        return len(await self._ask(lambda: self._service.get(key)))

    async def delete(self, key: str) -> None:
        """See `BlobStore.delete`."""
        await self._ask(lambda: self._service.delete(key))

    async def list(self, prefix: str, older_than: float) -> AsyncIterator[BlobInfo]:
        """See `BlobStore.list`."""
        for info in await self._ask(lambda: self._service.older_than(prefix, older_than)):
            yield info

    async def sign_put(self, key: str, size: int, sha256: str, seconds: float) -> SignedRequest:
        """See `BlobStore.sign_put`. The signature is none: nobody here forges."""
        del sha256  # this store cannot tell
        return SignedRequest("PUT", f"{key} {size} {self._service.now() + seconds}", {}, seconds)

    async def sign_get(self, key: str, seconds: float) -> SignedRequest:
        """See `BlobStore.sign_get`."""
        return SignedRequest("GET", f"{key} {self._service.now() + seconds}", {}, seconds)

    def fetch(self, url: str) -> bytes | None:
        """What a client gets that was sent to ``url``."""
        return self._service.get_signed(url)

    async def checked_digest(self, key: str) -> None:
        """See `BlobStore.checked_digest`: not known."""

    async def _ask(self, act: Callable[[], T]) -> T:
        if self._line.fails():
            raise StorageUnavailable("the blob store does not answer now")
        try:
            return await self._line.call(act)
        except Broken as error:
            raise StorageUnavailable(str(error)) from error
