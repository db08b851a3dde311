"""Operations on sessions: a session is the lease of a client, which it keeps alive by keepalives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from service.basics.problems import problem, refusal
from service.basics.slices import Slices
from service.journal import Journal
from service.operations.many import JsonList, Many
from service.replica.changes import Changes
from service.replica.epoch_queues import EpochQueues
from service.replica.leases import Leases
from service.replica.submitter import Caller, Reply, Submitter, reply_of
from service.rules.answers import session_body
from service.rules.decisions import Accepted, Answer
from service.rules.guards import session_lives
from service.rules.locks import holders
from service.rules.memory.lookup import Lookup
from service.rules.memory.state import State
from service.rules.records import Handle, Session, Store, session_key
from service.rules.requests import EndSession, OpenSession


class SessionOperations:
    """The operations that open, renew, read and end sessions."""

    def __init__(
        self,
        journal: Journal,
        leases: Leases,
        epoch_queues: EpochQueues,
        changes: Changes,
        slices: Slices,
        submitter: Submitter,
        clock: Callable[[], float],
    ) -> None:
        self._journal = journal
        self._leases = leases
        self._epoch_queues = epoch_queues
        self._changes = changes
        self._slices = slices
        self._submitter = submitter
        self._clock = clock

    async def open(self, caller: Caller, ttl: float, holder: str) -> Reply:
        """Create a session, or renew the one that lives under the caller's id.

        The lease of a new session counts from its commit. For a living session the call is a renewal: as with
        `keepalive`, it is refused once the expiry has begun, and 410 is answered if the session has ended. Such an
        answer does not say "not applied" if this call changed the record before, as to another TTL.
        """
        received = self._clock()
        served = await self._submitter.decided(OpenSession(caller.attempt, ttl, holder))
        reply = reply_of(served)
        if reply.answer.created and not reply.answer.replayed:
            return reply
        try:
            await self.keepalive(caller.session, received)
        except Problem as error:
            if reply.answer.replayed or (isinstance(served.decision, Accepted) and served.decision.changes):
                raise problem(error.code, error.detail, outcome=Outcome.APPLIED, extras=error.extras) from error
            raise
        return reply

    async def keepalive(self, session_id: str, received: float | None = None) -> Reply:
        """Renew the lease of a session from ``received`` (monotonic), when the request came in; None means now.

        It is refused once the expiry has begun. This then waits until the expiry is committed, so that 410 is never
        answered before.
        """
        began = self._clock()
        while self._leases.ending(session_id):
            if self._clock() >= began + self._submitter.request_seconds:
                raise problem(Code.STORAGE_UNAVAILABLE, f"session {session_id!r} is about to expire: ask again")
            await self._changes.wait(session_key(session_id), 0.25)
        reading = self._journal.read()
        session = self._living(reading.view, session_id)
        self._leases.renew(session, began if received is None else received)
        self._epoch_queues.heard_of(session_id)
        return Reply(Answer({"session": session.id, "ttl": session.ttl}), reading.revision, reading.term)

    async def get(self, session_id: str) -> Reply:
        """Return a session with the seconds that it has left and the locks that it holds.

        The locks are collected in slices: one that is taken or released meanwhile may be in the answer or not.
        """
        reading = self._journal.read()
        session = self._living(reading.view, session_id)
        locks = await self._locks(reading.view.state, session.id)
        self._journal.read()  # raises unless the lease still holds
        body: dict[str, Any] = {
            **session_body(session),
            "expires_in": self._leases.expires_in(session.id),
            "locks": locks,
        }
        return Reply(Answer(body), reading.revision, reading.term)

    async def end(self, caller: Caller) -> Reply:
        """End the caller's session, as its client asked."""
        return await self._submitter.perform(EndSession(caller.attempt))

    def _living(self, view: Lookup, session_id: str) -> Session:
        context = self._journal.context(self._journal.head.revision)
        if refused := session_lives(view, session_id, context):
            raise refusal(refused)
        session = view.session(session_id)
        assert isinstance(session, Session)
        return session

    async def _locks(self, state: State, session: str) -> Many:
        """Return the locks of a session, sorted by store and name."""
        held = JsonList()

        def add(lock: tuple[str, str]) -> None:
            store, name = lock
            record, handle = state.store(store), state.handle(store, name)
            of_store = record if isinstance(record, Store) else Store(store)
            if isinstance(handle, Handle) and session in holders(state, of_store, handle):
                held.add({"store": store, "name": name})

        def locks_after(last: tuple[str, str]) -> Iterator[tuple[str, str]]:
            return state.may_hold(session, last)

        await self._slices.each_after(locks_after, ("", ""), add)
        return held.build()
