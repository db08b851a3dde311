"""Submit requests to the journal for clients or for maintenance, wait for their outcomes, and finish removals.

A removal is finished after the handle's mark for removal is committed: the blob is deleted, and then the record is
dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import BackendError
from milepost_server.basics.problems import problem, refusal
from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.journal import Journal, Served
from milepost_server.journal.attempts import MaySubmit
from milepost_server.model.requests.base import LEADER, Attempt, Request, StoreRequest
from milepost_server.model.requests.handles import FinishRemoval
from milepost_server.rules.decide import decide
from milepost_server.rules.decisions import Accepted, Answer, Blocked, Decision, FinishNeeded, Refused
from milepost_server.rules.guards import session_is_callers

log = logging.getLogger("milepost.removals")
_MOST_REMOVALS_IN_THE_WAY = 8

COMMIT_SECONDS = 30.0
_MOST_REST_SECONDS = 1.0


class Removals:
    """Does the last two steps of a removal, after the mark for removal is committed: delete the blob, and drop the
    record.
    """

    def __init__(self, journal: Journal, deletions: DeletionQueue) -> None:
        self._journal = journal
        self._deletions = deletions

    async def finish(self, finish: FinishNeeded, deadline: float, code: Code = Code.DISCARD_FAILED) -> None:
        """Delete the blob, then drop the record. ``deadline`` is in monotonic seconds.

        Raises a problem with ``code`` if the blob could not be deleted. For a removal this is ``discard-failed``, whose
        outcome is ``applied``, since the removal itself is committed.
        """
        try:
            await self._deletions.delete(finish.blob, deadline)
        except BackendError as error:
            raise problem(code, f"the bytes could not be deleted: {error}") from error
        request = FinishRemoval(LEADER, finish.store, finish.name, finish.version)
        try:
            await self._journal.wait(self._journal.submit(request, deadline))
        except Problem as error:
            # The removal is committed and the blob is deleted, so the caller gets no error. Maintenance drops the
            # record later, on this or the next leader.
            log.info(
                "%s/%s is removed, but its record could not be dropped yet; it is tried again later: %s",
                finish.store,
                finish.name,
                error,
            )


@dataclass(frozen=True, slots=True)
class Caller:
    """What a client's request states about its sender: the session, idempotency key and number of the attempt; and the
    epoch, None if the request names none.
    """

    attempt: Attempt
    epoch: int | None = None

    @property
    def session(self) -> str:
        """The id of the session for which the request is made."""
        return self.attempt.session


class Reply(msgspec.Struct, frozen=True, gc=False):
    """An answer with the revision and the term that it reflects."""

    answer: Answer
    revision: int
    term: int
    finish: FinishNeeded | None = None


def _always(_: Request) -> None:
    """Allow every request to be submitted."""


class Submitter:
    """Submits requests to the journal, and waits for each at most ``request_seconds``.

    ``make_room`` trims the tree of a store when a request needs that; see `Trimming.make_room`.
    """

    def __init__(
        self,
        journal: Journal,
        removals: Removals,
        make_room: Callable[[str, float], Awaitable[bool]],
        clock: Callable[[], float],
        request_seconds: float,
    ) -> None:
        self._journal = journal
        self._removals = removals
        self._make_room = make_room
        self._clock = clock
        self.request_seconds = request_seconds

    async def deduplicated(self, caller: Caller, store: str, attempt: Callable[[MaySubmit], Awaitable[Reply]]) -> Reply:
        """Run ``attempt``, which prepares and submits a request, and return its reply. If a newer attempt with the same
        idempotency key begins before the request is submitted, return the reply of the newer attempt.

        ``attempt`` is called with a function that it must call right before it submits the request (see
        `Attempts.run`).
        """
        session, key = caller.attempt.session, caller.attempt.key
        if key is None:
            return await attempt(_always)
        self._check_owner(caller.attempt)
        reply, joined = await self._journal.attempts.run((store, session, key), attempt, self.request_seconds)
        return replace(reply, answer=replace(reply.answer, replayed=True)) if joined else reply

    def dry_run(self, request: Request) -> Accepted | Blocked:
        """Return how the rules would decide a request now, without submitting it. Raises a problem if they refuse it.

        So a request whose preparation takes long can be refused before the preparation.
        """
        decision = self._judged(request)
        if type(decision) is Refused:
            raise refusal(decision)
        return decision

    async def dry_run_once_trimmed(self, request: StoreRequest) -> Accepted | Blocked:
        """Return how the rules would decide a request now, without submitting it. If the rules refuse it only because
        of deleted entries, the store's tree is trimmed first. Raises a problem if they refuse it.
        """
        deadline = self._deadline()
        while isinstance(decision := self._judged(request), Refused):
            if not await self._makes_room(request, decision, deadline):
                raise refusal(decision)
        return decision

    async def perform(self, request: Request, may_submit: MaySubmit = _always) -> Reply:
        """Submit a request and return its reply. Removals that block the request are finished first.

        ``may_submit`` is called before each submission, and raises if the request must not be submitted. Raises
        `Problem` with the code of the refusal.
        """
        return reply_of(await self.submit_and_wait(request, None, may_submit))

    async def submit_and_wait(
        self, request: Request, generation: int | None = None, may_submit: MaySubmit = _always
    ) -> Served:
        """Submit a request and return how it ended, which may be a refusal of the rules.

        If a removal blocks the request, the removal is finished first; if the request needs a trimmed tree, the tree is
        trimmed. ``generation`` is the leadership under which the request's blob was put; under another leadership the
        request is refused. ``may_submit`` is called before each submission, and raises if the request must not be
        submitted. Raises `Problem` if the rules never decided the request.
        """
        deadline = self._deadline()
        self._check_owner(request.attempt)
        finished = 0
        while finished < _MOST_REMOVALS_IN_THE_WAY:
            may_submit(request)
            served = await self._journal.wait(self._journal.submit(request, deadline, generation))
            decision = served.decision
            if isinstance(decision, Accepted):
                return served
            if isinstance(decision, Blocked):
                await self._removals.finish(decision.finish, deadline, Code.STORAGE_UNAVAILABLE)
                finished += 1
            elif not await self._makes_room(request, decision, deadline):
                return served
        raise problem(Code.TOO_MANY_REQUESTS, "other clients add and remove this handle too quickly; try again later")

    async def finish_removal(self, finish: FinishNeeded) -> None:
        """Finish a removal that has begun. Raises a ``discard-failed`` problem."""
        await self._removals.finish(finish, self._deadline())

    def _judged(self, request: Request) -> Decision:
        reading = self._journal.read()
        context = self._journal.context(reading.revision + 1)
        # whether a retry must be refused depends on whether it would change something
        dry = request.attempt.number == 1
        return decide(reading.view, request, replace(context, dry=True) if dry else context)

    async def _makes_room(self, request: Request, decision: Refused, deadline: float) -> bool:
        """Trim the tree of the request's store if the decision requires that. Return whether the request should then be
        submitted again.
        """
        if not isinstance(request, StoreRequest) or not decision.until_trimmed:
            return False
        return await self._make_room(request.store_name, deadline)

    def _check_owner(self, attempt: Attempt) -> None:
        """Refuse a client that uses another client's session, so that it cannot join a running attempt in that session
        and get its answer. The rules repeat this check when they decide the request.
        """
        if attempt.client is not None:
            reading = self._journal.read()
            context = self._journal.context(reading.revision)
            if refused := session_is_callers(reading.view, attempt, context):
                raise refusal(refused)

    def _deadline(self) -> float:
        return self._clock() + self.request_seconds


def reply_of(served: Served) -> Reply:
    """Return the reply for a decision of the rules. Raises a problem if the rules refused the request."""
    match served.decision:
        case Accepted() as accepted:
            return Reply(accepted.answer, served.revision, served.term, accepted.finish)
        case Refused() as refused:
            raise refusal(refused)
        case Blocked():
            raise TypeError("a blocked request is no answer")


async def commit(journal: Journal, request: Request, clock: Callable[[], float]) -> Reply:
    """Commit a request of maintenance, then pause for as long as the commit took, at most a second, so that maintenance
    takes at most half of the time.

    Raises `Problem` if the request is refused or cannot be committed.
    """
    began = clock()
    reply = reply_of(await journal.wait(journal.submit(request, began + COMMIT_SECONDS)))
    await asyncio.sleep(min(clock() - began, _MOST_REST_SECONDS))
    return reply
