"""Operations on the bytes of files: read them from the leader, and publish files whose bytes a data node stored."""

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
    """A file at a path, with its version, and the revision and term of the state in which it was found."""

    entry: Entry
    version: str
    revision: int
    term: int


@dataclass(frozen=True, slots=True)
class FileDelivery:
    """The bytes of a file that are being sent to a reader, with the file and the range of bytes."""

    found: FoundFile
    span: Span
    chunks: AsyncIterator[bytes]


class FileReader:
    """The operations that read files. Callers must await `TreeOperations.ready` first, which loads the manifests of the
    tree.
    """

    def __init__(self, journal: Journal, blobs: BlobStore, trees: TreeOperations) -> None:
        self._journal = journal
        self._delivery = RangeDelivery(blobs)
        self._trees = trees

    def find(self, at: At, version: str | None = None) -> FoundFile:
        """Return the file at a path. If ``version`` is given, the file must have that version.

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
        """Return the bytes of a file. If the file is replaced meanwhile, the newer file is read, unless ``version`` is
        given.

        ``span_of`` selects the range of bytes, and raises a problem for a range outside of the file.
        `RangeDelivery.deliver` documents which bytes are verified.
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
        """Return whether a missing blob is explained by a change since ``found``: the path has another file or none, or
        a compaction moved the file into a shared blob.
        """
        return self.find(at).entry != found.entry


class Publisher:
    """Publishes files whose bytes are already stored: makes them visible at their paths."""

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
        """Publish a file at a path; a repeated call with the same ``key`` counts as the same write.

        ``begun`` is the directory above the file when its bytes began to come, which must still exist. A late attempt
        publishes nothing, since the file may have been renamed or deleted meanwhile. An attempt is late if a newer
        attempt has begun, or if an attempt was already committed. An attempt with other bytes than the committed ones
        is refused.

        Nothing is published if the blob was put under an older leadership: the garbage collector of this leadership may
        be about to delete such a blob, since it assumes that no new record names one. The method then returns the
        current term, under which the data node must put the bytes again. Otherwise it returns the answer; for a retry,
        the first answer again.

        The blob of a refused attempt is kept, since the data node may retry with this blob.

        Raises `Problem` with the code of the refusal, such as ``fenced``, ``outcome-unknown`` or
        ``idempotency-mismatch``.
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

    def check_put(self, at: At, epoch: int | None, attempt: Attempt, *, overwrite: bool, begun: Begun = NOW) -> None:
        """Refuse a put early, before any byte is received, if the rules would refuse it now. Raises `Problem` with the
        code of the refusal, such as ``fenced``.

        A put that was already committed under its key is not refused here, since its answer depends on a comparison of
        its bytes with the committed ones.
        """
        request = PutFile(attempt, at.store, at.path, epoch, NO_BLOB, b"", overwrite, begun)
        journal = self._journal
        if attempt.key is not None and journal.read().view.answered(request.scope) is not None:
            return
        if journal.attempts.applied(request) is None:
            self._submitter.dry_run(request)
