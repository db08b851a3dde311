"""Read the state of a handle: its bytes through the service, or a signed URL to them in the blob store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import BlobStore
from milepost_server.basics.problems import problem
from milepost_server.basics.streams import stream_of
from milepost_server.blobs.delivery import deliver, is_missing, locate
from milepost_server.journal import Journal, Reading
from milepost_server.operations.handles import existing
from milepost_server.rules.records import Handle
from milepost_server.rules.requests import BlobRef

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """A range of bytes that a reader asked for: from ``start`` up to, but not including, ``end``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """The bytes of a state that are being sent to a reader, with the revision and the term that they reflect."""

    handle: Handle
    span: Span
    chunks: AsyncIterator[bytes]
    revision: int
    term: int


@dataclass(frozen=True, slots=True)
class Location:
    """A signed URL at which the bytes of a state can be fetched for a while.

    The URL is a secret for that time, so it is left out of the ``repr``.
    """

    handle: Handle
    url: str = field(repr=False)
    revision: int
    term: int


class StateReader:
    """The operations that read states. A signed URL to a state is valid for ``download_seconds``."""

    def __init__(self, journal: Journal, blobs: BlobStore, download_seconds: float) -> None:
        self._journal = journal
        self._blobs = blobs
        self._download_seconds = download_seconds

    async def read(self, store: str, name: str, version: str | None, span_of: Callable[[Handle], Span]) -> Delivery:
        """Return the bytes of a handle. Without ``version``, the newer state is read if it is replaced meanwhile.

        ``span_of`` picks the range of bytes, and raises a problem for a range that lies outside of the state.
        """

        async def delivered(handle: Handle, span: Span) -> AsyncIterator[bytes]:
            if handle.data is not None:
                return stream_of(handle.data[span.start : span.end])
            return await deliver(self._blobs, _blob_of(handle), span.start, span.end)

        handle, span, chunks, reading = await self._newest(store, name, version, span_of, delivered)
        return Delivery(handle, span, chunks, reading.revision, reading.term)

    async def locate(
        self, store: str, name: str, version: str | None, span_of: Callable[[Handle], Span]
    ) -> Location | None:
        """Return a signed URL to the bytes that `read` would deliver.

        None if the blob store cannot sign, or if the record has the bytes. This checks that the blob is there, but does
        not read it: the client that fetches it checks size and digest.
        """

        async def located(handle: Handle, _: Span) -> str | None:
            return None if handle.data is not None else await locate(self._blobs, _blob_of(handle), seconds)

        seconds = self._download_seconds

        handle, _, url, reading = await self._newest(store, name, version, span_of, located)
        return None if url is None else Location(handle, url, reading.revision, reading.term)

    async def _newest(
        self,
        store: str,
        name: str,
        version: str | None,
        span_of: Callable[[Handle], Span],
        get: Callable[[Handle, Span], Awaitable[T]],
    ) -> tuple[Handle, Span, T, Reading]:
        while True:
            reading = self._journal.read()
            handle = existing(reading.view, store, name)
            if version is not None and handle.version != version:
                raise problem(
                    Code.VERSION_MISMATCH,
                    f"{name!r} is at version {handle.version!r}, not {version!r}",
                    extras={"current": handle.version},
                )
            span = span_of(handle)
            try:
                got = await get(handle, span)
            except Problem as error:
                if is_missing(error) and self._moved_on(store, name, handle):
                    continue
                raise
            return handle, span, got, reading

    def _moved_on(self, store: str, name: str, handle: Handle) -> bool:
        """Return whether the handle has another version now or is gone, so that its old blob is rightly missing."""
        now = self._journal.read().view.handle(store, name)
        return not isinstance(now, Handle) or now.version != handle.version or now.removing or now.gone


def _blob_of(handle: Handle) -> BlobRef:
    return BlobRef(handle.blob, handle.size, handle.sha256)
