"""Operations on sessions: a session is the lease of a client, which the client renews by keepalives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.pieces import EncodedList, JsonList
from milepost_server.basics.problems import problem, refusal
from milepost_server.journal import Journal
from milepost_server.journal.journal import Reading
from milepost_server.memory.state import State
from milepost_server.model.processes import Process
from milepost_server.model.records import Corrupt, Handle, Session, Store, session_key
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.sessions import OpenSession
from milepost_server.replica.effects import Changes
from milepost_server.replica.epoch_queues import EpochQueues
from milepost_server.replica.leases import Leases
from milepost_server.replica.submitter import Caller, Reply, Submitter, reply_of
from milepost_server.rules.answers import session_body
from milepost_server.rules.decisions import Accepted, Answer
from milepost_server.rules.guards import session_is_callers, session_lives
from milepost_server.rules.locks import holders

MOST_EPOCHS_SHOWN: Final = 20
"""The most epochs of each session in a listing."""


@dataclass(slots=True)
class SessionPage:
    """A page of the list of all sessions, sorted by id, with a separate list of sessions whose records are damaged.

    ``next`` is the id after which the next page begins, None on the last page.
    """

    sessions: list[dict[str, Any]]
    corrupt: list[dict[str, Any]]
    next: str | None
    term: int


class SessionOperations:
    """The operations that open, renew, read and end sessions."""

    def __init__(
        self,
        journal: Journal,
        leases: Leases,
        epoch_queues: EpochQueues,
        changes: Changes,
        loop_time: LoopTimeBudget,
        submitter: Submitter,
        clock: Callable[[], float],
    ) -> None:
        self._journal = journal
        self._leases = leases
        self._epoch_queues = epoch_queues
        self._changes = changes
        self._loop_time = loop_time
        self._submitter = submitter
        self._clock = clock

    async def open(
        self, caller: Caller, ttl: float, holder: str, owner: str = "", process: Process | None = None
    ) -> Reply:
        """Create a session that belongs to ``owner``, or renew the session that lives under the caller's id.

        ``process`` describes the process that holds the session; None leaves the description as it is.

        The lease of a new session counts from its commit. For a session that is alive, the call is a renewal. Like
        `keepalive`, it is refused with 410 once the expiry of the session has begun. If the call had already changed
        the record, such as its TTL, the outcome of this problem is ``applied`` instead of ``not_applied``.
        """
        received = self._clock()
        served = await self._submitter.submit_and_wait(OpenSession(caller.attempt, ttl, holder, owner, process))
        reply = reply_of(served)
        if reply.answer.created and not reply.answer.replayed:
            return reply
        try:
            await self.keepalive(caller.session, received, caller.attempt.client)
        except Problem as error:
            if reply.answer.replayed or (isinstance(served.decision, Accepted) and served.decision.changes):
                raise problem(error.code, error.detail, outcome=Outcome.APPLIED, extras=error.extras) from error
            raise
        return reply

    async def keepalive(self, session_id: str, received: float | None = None, client: str | None = None) -> Reply:
        """Renew the lease of a session, counted from ``received`` (monotonic), when the request came in; None means
        now.

        ``client`` is the name of the client, if the client may renew only its own sessions; None if it may renew all.
        Once the expiry of the session has begun, the renewal is refused with 410. Before that answer, the method waits
        until the expiry is committed, since a new leader would otherwise find the session alive.
        """
        began, attempt = self._clock(), Attempt(session_id, client=client)
        self._check_owner(self._journal.read(), attempt)
        while self._leases.ending(session_id):
            if self._clock() >= began + self._submitter.request_seconds:
                raise problem(Code.STORAGE_UNAVAILABLE, f"session {session_id!r} is about to expire: ask again")
            await self._changes.wait(session_key(session_id), 0.25)
        reading = self._journal.read()
        session = self._living(reading, attempt)
        self._leases.renew(session, began if received is None else received)
        self._epoch_queues.heard_of(session_id)
        return Reply(Answer({"session": session.id, "ttl": session.ttl}), reading.revision, reading.term)

    async def get(
        self, session_id: str, client: str | None = None, shown: Callable[[str], bool] = lambda _: True
    ) -> Reply:
        """Return a session with its remaining seconds and the locks that it holds.

        ``client`` is the name of the client, if the client may see only its own sessions; None if it may see all.
        ``shown`` says of a store whether the client may see it; locks in other stores are left out. The locks are
        collected in turns of the event loop. A lock that is taken or released during that time may be in the answer or
        not.
        """
        reading = self._journal.read()
        session = self._living(reading, Attempt(session_id, client=client))
        locks = await self._locks(reading.view.state, session.id, shown)
        # `read` raises a problem unless the lease still holds, without which this answer may be outdated
        self._journal.read()
        body: dict[str, Any] = {
            **session_body(session),
            "expires_in": self._leases.expires_in(session.id),
            "locks": locks,
        }
        return Reply(Answer(body), reading.revision, reading.term)

    async def list_page(self, after: str, limit: int) -> SessionPage:
        """Return a page of at most ``limit`` sessions, living or damaged, whose ids come after ``after``.

        Each session is described as it was when the page reached it. The number of locks comes from an index and may
        include locks that were released with a whole store, since checking every lock would take too long.
        """
        page = SessionPage([], [], None, self._journal.read().term)
        last = after

        def add(session_id: str) -> bool:
            nonlocal last
            if len(page.sessions) + len(page.corrupt) == limit:
                page.next = last
                return True
            last = session_id
            state = self._journal.state()
            session = state.session(session_id)
            if isinstance(session, Corrupt):
                page.corrupt.append({"name": session_id, "reason": session.reason})
            elif session is not None and not session.ended:
                page.sessions.append(self._summary(state, session))
            return False

        await self._loop_time.each_after(lambda last: self._journal.state().session_index.listed(last), after, add)
        # `read` raises a problem unless the lease still holds, without which this answer may be outdated
        page.term = self._journal.read().term
        return page

    def _summary(self, state: State, session: Session) -> dict[str, Any]:
        """Return the description of a living session, as JSON, for a list of sessions."""
        led = state.session_index.led_by(session, MOST_EPOCHS_SHOWN + 1)
        epochs = [{"store": store, "epoch": _epoch_of(state, store)} for store in led[:MOST_EPOCHS_SHOWN]]
        return {
            **session_body(session),
            "expires_in": self._leases.expires_in(session.id),
            "locks": state.locks.count_handles(session.id),
            "locked_stores": state.locks.count_stores(session.id),
            "epochs": epochs,
            "more_epochs": len(led) > len(epochs),
        }

    def owner(self, session_id: str) -> str:
        """Return the name of the client that opened a session; empty if the name is unknown, or if there is no such
        session.
        """
        session = self._journal.read().view.session(session_id)
        return session.owner if isinstance(session, Session) else ""

    def _check_owner(self, reading: Reading, attempt: Attempt) -> None:
        if refused := session_is_callers(reading.view, attempt, self._journal.context(reading.revision)):
            raise refusal(refused)

    def _living(self, reading: Reading, attempt: Attempt) -> Session:
        self._check_owner(reading, attempt)
        if refused := session_lives(reading.view, attempt.session, self._journal.context(reading.revision)):
            raise refusal(refused)
        session = reading.view.session(attempt.session)
        assert isinstance(session, Session)
        return session

    async def _locks(self, state: State, session: str, shown: Callable[[str], bool]) -> EncodedList:
        """Return the locks of a session, sorted by store and name; ``shown`` says of a store whether its locks are
        included.
        """
        held = JsonList()

        def add(lock: tuple[str, str]) -> None:
            store, name = lock
            record, handle = state.store(store), state.handle(store, name)
            of_store = record if isinstance(record, Store) else Store(store)
            if shown(store) and isinstance(handle, Handle) and session in holders(state, of_store, handle):
                held.add({"store": store, "name": name})

        def locks_after(last: tuple[str, str]) -> Iterator[tuple[str, str]]:
            return state.locks.may_hold(state.names, session, last)

        await self._loop_time.each_after(locks_after, ("", ""), add)
        return held.build()


def _epoch_of(state: State, store: str) -> int:
    record = state.store(store)
    return record.epoch if isinstance(record, Store) else 0
