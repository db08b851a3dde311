"""Read the bytes of files of trees, for who wants them from the leader itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import BlobStore
from milepost_server.basics.problems import problem
from milepost_server.basics.streams import stream_of
from milepost_server.blobs.delivery import is_missing
from milepost_server.blobs.range_delivery import RangeDelivery
from milepost_server.journal import Journal
from milepost_server.operations.file_bytes import blob_ref
from milepost_server.operations.reading import Span
from milepost_server.operations.trees import At, TreeOperations
from milepost_server.rules.answers import file_version
from milepost_server.rules.stored.trees import Entry


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that is at a path, with its version, and the revision and the term that this reflects."""

    entry: Entry
    version: str
    revision: int
    term: int


@dataclass(frozen=True, slots=True)
class FileDelivery:
    """The bytes of a file that are being sent to a reader."""

    found: FoundFile
    span: Span
    chunks: AsyncIterator[bytes]


class FileReader:
    """The operations that read files. `TreeOperations.ready` has to have been awaited."""

    def __init__(self, journal: Journal, blobs: BlobStore, trees: TreeOperations) -> None:
        self._journal = journal
        self._delivery = RangeDelivery(blobs)
        self._trees = trees

    def find(self, at: At, version: str | None = None) -> FoundFile:
        """Return the file at a path, which has to be at ``version`` if that is given.

        Raises ``not-exist`` problems, also for a directory, and ``version-mismatch`` problems.
        """
        reading = self._journal.read()
        entry = self._trees.readable(at)
        found = FoundFile(
            entry, file_version(str(entry.created_revision), entry.sha256), reading.revision, reading.term
        )
        if version is not None and found.version != version:
            raise problem(
                Code.VERSION_MISMATCH,
                f"{at.path!r} is at version {found.version!r}, not {version!r}",
                extras={"current": found.version},
            )
        return found

    async def read(self, at: At, version: str | None, span_of: Callable[[Entry], Span]) -> FileDelivery:
        """Return the bytes of a file. Without ``version``, the newer file is read if it is replaced meanwhile.

        ``span_of`` picks the range of bytes, and raises a problem for one that lies outside of the file. For which of
        them are proven see `RangeDelivery.deliver`.
        """
        while True:
            found = self.find(at, version)
            span = span_of(found.entry)
            try:
                return FileDelivery(found, span, await self._chunks(found.entry, span))
            except Problem as error:
                if is_missing(error) and self._moved_on(at, found):
                    continue
                raise

    async def _chunks(self, entry: Entry, span: Span) -> AsyncIterator[bytes]:
        if entry.has_own_blob:
            return await self._delivery.deliver(blob_ref(entry), span.start, span.end)
        return stream_of((await self._trees.bytes_of_small(entry))[span.start : span.end])

    def _moved_on(self, at: At, found: FoundFile) -> bool:
        """Return whether another file is at the path by now, or none, or it lies in a shared blob."""
        return self.find(at).entry != found.entry
