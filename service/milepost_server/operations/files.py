"""The bytes of files of trees: read from the leader itself, and published where a data node has taken them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import BlobStore
from milepost_server.basics.pieces import stream_of
from milepost_server.basics.problems import problem
from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.blobs.delivery import blob_ref, is_missing
from milepost_server.blobs.keys import place_of
from milepost_server.blobs.range_delivery import RangeDelivery
from milepost_server.journal import Journal
from milepost_server.model.requests.base import NO_BLOB, Attempt, BlobRef
from milepost_server.model.requests.trees import NOW, Begun, PutFile
from milepost_server.model.trees import Entry
from milepost_server.operations.states import Span
from milepost_server.operations.trees import At, TreeOperations
from milepost_server.replica.submitter import Reply, Submitter, reply_of
from milepost_server.replica.trees.manifests import Manifests
from milepost_server.rules.answers import file_version


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


class Publisher:
    """Let a file be at a path, whose bytes are there."""

    def __init__(
        self,
        journal: Journal,
        deletions: DeletionQueue,
        submitter: Submitter,
        manifests: Manifests,
    ) -> None:
        self._journal = journal
        self._deletions = deletions
        self._submitter = submitter
        self._manifests = manifests

    async def publish(
        self,
        at: At,
        epoch: int | None,
        blob: BlobRef,
        data: bytes | None,
        *,
        overwrite: bool,
        key: str,
        attempt: int,
        begun: Begun = NOW,
    ) -> Reply | int:
        """Let a file be at a path; ``key`` is known if it is published again. Raises problems.

        An attempt that comes in late, after a newer one or after one that has been committed, does nothing: the file
        may have been renamed or deleted since. One with other bytes than those that have been committed is refused.

        Nothing is done if its blob was put under an older leadership: the collector of this one may be about to delete
        it, since it trusts that nobody begins to name such a blob any more. The present term is returned then, under
        which the bytes have to be put first. Else the answer is returned, or the first one again.

        The blob of a refused attempt is left to the data node: it may ask again, and then not be refused.
        """
        journal = self._journal
        if not journal.lease_holds():
            raise problem(Code.NO_LEADER, "this replica does not lead")
        attempts = journal.attempts
        request = PutFile(Attempt("", key, attempt), at.store, at.path, epoch, blob, data, overwrite, begun)
        attempts.begin(request)
        place = place_of(blob.key) if blob.key else None
        if blob.key and (place is None or (place.deployment, place.store) != (journal.deployment, at.store)):
            raise problem(Code.FORBIDDEN, f"no file of {at.store!r} can have these bytes")
        await self._manifests.ready(at.store)
        attempts.check_newest(request)
        if (applied := attempts.applied(request)) is not None:
            if applied.blob is not None and blob.key not in ("", applied.blob):
                await self._deletions.try_delete(blob.key)
            applied.check_same(request)
            reading = journal.read()
            return Reply(applied.answer, reading.revision, reading.term)
        if place is not None and place.term < journal.first_term:
            return journal.term
        return reply_of(await self._submitter.submit_and_wait(request, journal.generation, attempts.check_newest))

    def check_put(self, at: At, epoch: int | None, attempt: Attempt, *, overwrite: bool) -> None:
        """Refuse early, before any byte is taken, a put that the rules would refuse now. Raises problems.

        One whose key is known has been committed: it is answered once it is seen whether its bytes are the same.
        """
        request = PutFile(attempt, at.store, at.path, epoch, NO_BLOB, b"", overwrite)
        journal = self._journal
        if attempt.key is not None and journal.read().view.answered(request.scope) is not None:
            return
        if journal.attempts.applied(request) is None:
            self._submitter.dry_run(request)
