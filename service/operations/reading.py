"""Reading a state: its bytes through the service, or the way to them in the blob store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from backends.contract import BlobStore
from milepost.errors import Problem
from milepost.wire import Code
from service.basics.problems import problem
from service.blobs.delivery import deliver, is_missing, locate
from service.journal import Journal, Reading
from service.operations.handles import existing
from service.rules.records import Handle
from service.rules.requests import BlobRef

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes ``[start, end)`` that a reader asked for."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A state on its way out."""

    handle: Handle
    span: Span
    chunks: AsyncIterator[bytes]
    revision: int
    term: int


@dataclass(frozen=True, slots=True)
class Location:
    """Where a state's bytes can be fetched for a while. The URL is a secret for that long, so it is not shown."""

    handle: Handle
    url: str = field(repr=False)
    revision: int
    term: int


class StateReader:
    """Reads states. A signed URL to one is good for ``download_seconds``."""

    def __init__(self, journal: Journal, blobs: BlobStore, download_seconds: float) -> None:
        self._journal = journal
        self._blobs = blobs
        self._download_seconds = download_seconds

    async def read(self, store: str, name: str, version: str | None, span_of: Callable[[Handle], Span]) -> Delivery:
        """The bytes of a handle. Without ``version``, a state that is replaced meanwhile is read in its newer form.

        ``span_of`` picks the bytes, and raises a problem for a range that lies outside.
        """

        async def delivered(ref: BlobRef, span: Span) -> AsyncIterator[bytes]:
            return await deliver(self._blobs, ref, span.start, span.end)

        handle, span, chunks, reading = await self._newest(store, name, version, span_of, delivered)
        return Delivery(handle, span, chunks, reading.revision, reading.term)

    async def locate(
        self, store: str, name: str, version: str | None, span_of: Callable[[Handle], Span]
    ) -> Location | None:
        """Where to fetch the bytes that `read` would deliver; None where the blobs cannot sign.

        The bytes are looked for, but not looked through: the client that fetches them checks size and digest.
        """

        async def located(ref: BlobRef, _: Span) -> str | None:
            return await locate(self._blobs, ref, self._download_seconds)

        handle, _, url, reading = await self._newest(store, name, version, span_of, located)
        return None if url is None else Location(handle, url, reading.revision, reading.term)

    async def _newest(
        self,
        store: str,
        name: str,
        version: str | None,
        span_of: Callable[[Handle], Span],
        get: Callable[[BlobRef, Span], Awaitable[T]],
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
                got = await get(BlobRef(handle.blob, handle.size, handle.sha256), span)
            except Problem as error:
                if is_missing(error) and self._moved_on(store, name, handle):
                    continue
                raise
            return handle, span, got, reading

    def _moved_on(self, store: str, name: str, handle: Handle) -> bool:
        """Whether the handle is another version by now, or gone: then its old blob is rightly missing."""
        now = self._journal.read().view.handle(store, name)
        return not isinstance(now, Handle) or now.version != handle.version or now.removing or now.gone
