"""Operations on sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from service.leader import Replica
from service.operations.calls import Caller, Reply, decided, perform, reply_of
from service.operations.many import JsonList, Many
from service.problems import problem, refusal
from service.rules.answers import session_body
from service.rules.decisions import Accepted, Answer
from service.rules.guards import session_lives
from service.rules.locks import holders
from service.rules.lookup import Lookup
from service.rules.records import Handle, Session, Store, session_key
from service.rules.requests import EndSession, OpenSession
from service.rules.state import State


async def open_session(replica: Replica, caller: Caller, ttl: float, holder: str) -> Reply:
    """Create a session, or renew the one that lives under this id.

    A lease that began with this call counts from its commit. Of any other the call is a renewal: as with `keepalive`,
    nothing is granted to a session whose expiry has begun, and 410 said of one that has ended. What was changed
    before that is not told as not applied.
    """
    received = replica.clock()
    served = await decided(replica, OpenSession(caller.session, caller.key, caller.attempt, ttl, holder))
    reply = reply_of(served)
    if reply.answer.created and not reply.answer.replayed:
        return reply
    try:
        await keepalive(replica, caller.session, received)
    except Problem as error:
        if reply.answer.replayed or (isinstance(served.decision, Accepted) and served.decision.changes):
            raise problem(error.code, error.detail, outcome=Outcome.APPLIED, extras=error.extras) from error
        raise
    return reply


async def keepalive(replica: Replica, session_id: str, received: float) -> Reply:
    """Renew a lease, counted from ``received`` (monotonic), when the request came in.

    Refused once the expiry has begun: then it is waited for, so that 410 is said only after it was committed.
    """
    deadline = replica.clock() + replica.settings.request_seconds
    while replica.leases.ending(session_id):
        if replica.clock() >= deadline:
            raise problem(Code.STORAGE_UNAVAILABLE, f"session {session_id!r} is about to expire")
        await replica.changes.wait(session_key(session_id), 0.25)
    reading = replica.journal.read()
    session = _living(replica, reading.view, session_id)
    replica.leases.renew(session, received)
    replica.campaigns.heard_of(session_id)
    return Reply(Answer({"session": session.id, "ttl": session.ttl}), reading.revision, reading.term)


async def get_session(replica: Replica, session_id: str) -> Reply:
    """A session with the seconds it has left and the locks it holds, per store.

    The locks are gone through in slices: one that is taken or given back meanwhile may be told of or not.
    """
    reading = replica.journal.read()
    session = _living(replica, reading.view, session_id)
    locks = await _locks(replica, reading.view.state, session.id)
    replica.journal.read()  # still under the lease
    body: dict[str, Any] = {
        **session_body(session),
        "expires_in": replica.leases.expires_in(session.id),
        "locks": locks,
    }
    return Reply(Answer(body), reading.revision, reading.term)


async def end_session(replica: Replica, caller: Caller) -> Reply:
    """End a session at its own wish."""
    return await perform(replica, EndSession(caller.session, caller.key, caller.attempt))


def _living(replica: Replica, view: Lookup, session_id: str) -> Session:
    context = replica.journal.context(replica.journal.head.revision)
    if refused := session_lives(view, session_id, context):
        raise refusal(refused)
    session = view.session(session_id)
    assert isinstance(session, Session)
    return session


async def _locks(replica: Replica, state: State, session: str) -> Many:
    """By store and name."""
    held = JsonList()

    def add(lock: tuple[str, str]) -> None:
        store, name = lock
        record, handle = state.store(store), state.handle(store, name)
        of_store = record if isinstance(record, Store) else Store(store)
        if isinstance(handle, Handle) and session in holders(state, of_store, handle):
            held.add({"store": store, "name": name})

    def behind(lock: tuple[str, str]) -> Iterator[tuple[str, str]]:
        return state.may_hold(session, lock)

    await replica.slices.through(behind, ("", ""), add)
    return held.whole()
