"""Publish files whose bytes a data node has taken: the leader's part of a put."""

from __future__ import annotations

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.blobs.keys import place_of
from milepost_server.journal import Journal
from milepost_server.operations.trees import At
from milepost_server.replica.applied_writes import AppliedWrites, check_same
from milepost_server.replica.submitter import Reply, Submitter, reply_of
from milepost_server.replica.trees.attempts import NewestAttempts, known_key
from milepost_server.replica.trees.loading import Manifests
from milepost_server.rules.requests import NO_BLOB, NOW, Attempt, Begun, BlobRef, PutFile, Request


class Publisher:
    """Let a file be at a path, whose bytes are there."""

    def __init__(
        self,
        journal: Journal,
        deletions: DeletionQueue,
        submitter: Submitter,
        manifests: Manifests,
        attempts: NewestAttempts,
        committed: AppliedWrites,
    ) -> None:
        self._journal = journal
        self._deletions = deletions
        self._submitter = submitter
        self._manifests = manifests
        self._attempts = attempts
        self._committed = committed

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
        known_as = known_key(at.store, key)
        self._attempts.begin(known_as, attempt)
        place = place_of(blob.key) if blob.key else None
        if blob.key and (place is None or (place.deployment, place.store) != (journal.deployment, at.store)):
            raise problem(Code.FORBIDDEN, f"no file of {at.store!r} can have these bytes")
        await self._manifests.ready(at.store)
        self._attempts.check(known_as, attempt)
        request = PutFile(Attempt("", key, attempt), at.store, at.path, epoch, blob, data, overwrite, begun)
        if (committed := self._committed.of(known_as)) is not None:
            if committed.blob is not None and blob.key not in ("", committed.blob):
                await self._deletions.try_delete(blob.key)
            check_same(committed, request)
            reading = journal.read()
            return Reply(committed.answer, reading.revision, reading.term)
        if place is not None and place.term < journal.first_term:
            return journal.term

        def may_submit(_: Request) -> None:
            self._attempts.check(known_as, attempt)

        served = await self._submitter.submit_and_wait(request, journal.generation, may_submit)
        reply = reply_of(served)
        self._committed.note(known_as, request, reply.answer)
        return reply

    def check_put(self, at: At, epoch: int | None, attempt: Attempt, *, overwrite: bool) -> None:
        """Refuse early, before any byte is taken, a put that the rules would refuse now. Raises problems.

        One whose key is known has been committed: it is answered once it is seen whether its bytes are the same.
        """
        if attempt.key is not None:
            known = self._journal.read().view.answered((at.store, attempt.session, attempt.key))
            if known is not None or self._committed.of(known_key(at.store, attempt.key)) is not None:
                return
        self._submitter.dry_run(PutFile(attempt, at.store, at.path, epoch, NO_BLOB, b"", overwrite))
