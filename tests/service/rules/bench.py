"""The rules on a bench: requests are decided one after the other, and what they change is committed at once."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.records import (
    Corrupt,
    Handle,
    Record,
    Session,
    Store,
    handle_key,
    handle_of,
    session_key,
    store_key,
)
from milepost_server.model.requests.base import LEADER, Attempt, BlobRef, Request
from milepost_server.model.requests.handles import Add, FinishRemoval, Replace
from milepost_server.model.requests.sessions import OpenSession
from milepost_server.rules.decide import decide
from milepost_server.rules.decisions import Accepted, Blocked, Changes, Decision, DecisionContext, FinishNeeded, Refused
from milepost_server.rules.handlers.stores import inventory_entry

STORE = "flights"

Asked = TypeVar("Asked", bound=Request)


class Bench:
    """Committed state, and the moment that the next decision is made at."""

    def __init__(self, *sessions: str) -> None:
        self.state = State()
        self.context = DecisionContext(revision=0, lineage="l", wall="then")
        for session in sessions:
            self.done(OpenSession(Attempt(session), ttl=10.0, holder=f"the {session}"))

    @property
    def view(self) -> View:
        """Committed state."""
        return View(self.state)

    def decide(self, request: Request) -> Decision:
        """What is decided; what changes is committed."""
        self.context = replace(self.context, revision=self.context.revision + 1, wall=f"at {self.context.revision + 1}")
        decision = decide(self.view, request, self.context)
        if isinstance(decision, Accepted):
            self.state.apply(decision.changes.items())
            decision = with_inventory(self.view, decision)
        return decision

    def accepted(self, request: Request) -> Accepted:
        """A request that must be granted."""
        decision = self.decide(request)
        assert isinstance(decision, Accepted), decision
        return decision

    def done(self, request: Request) -> dict[str, Any]:
        """The answer to a request that must be granted."""
        return dict(self.accepted(request).answer.body)

    def decide_only(self, request: Request) -> Changes:
        """The changes of a request that must be granted, which are not committed."""
        decision = decide(self.view, request, self.context)
        assert isinstance(decision, Accepted), decision
        return decision.changes

    def refused(self, request: Request) -> Refused:
        """A request that must be refused."""
        decision = self.decide(request)
        assert isinstance(decision, Refused), decision
        return decision

    def code(self, request: Request) -> Code:
        """Why a request is refused."""
        return self.refused(request).code

    def blocked(self, request: Request) -> FinishNeeded:
        """What has to be finished before a request can be decided."""
        decision = self.decide(request)
        assert isinstance(decision, Blocked), decision
        return decision.finish

    def finish(self, finish: FinishNeeded) -> Accepted:
        """The bytes of a removed handle are gone."""
        return self.accepted(FinishRemoval(LEADER, finish.store, finish.name, finish.version))

    def commit(self) -> None:
        """All that was decided so far is known to be committed."""
        self.context = replace(self.context, committed=self.context.revision)

    def forget_keys(self) -> None:
        """Ten minutes pass."""
        self.context = replace(self.context, keys_horizon=self.context.revision)

    def forget_sessions(self) -> None:
        """An hour passes."""
        self.context = replace(self.context, keys_horizon=self.context.revision, sessions_horizon=self.context.revision)

    def put(self, key: str, record: Record | None) -> None:
        """Store a record as it is."""
        self.state.apply([(key, record)])

    def handle(self, name: str, store: str = STORE) -> Handle:
        """A handle's record."""
        record = self.state.get(handle_key(store, name))
        assert isinstance(record, Handle), record
        return record

    def store(self, store: str = STORE) -> Store:
        """A store's own record."""
        record = self.state.get(store_key(store))
        assert isinstance(record, Store), record
        return record

    def session(self, session: str) -> Session:
        """A session's record."""
        record = self.state.get(session_key(session))
        assert isinstance(record, Session), record
        return record


def with_inventory(view: View, accepted: Accepted) -> Accepted:
    """What was granted, with the inventory in its answer that the service adds once it has been committed."""
    if accepted.inventory is None:
        return accepted
    store = view.store(accepted.inventory.store)
    names = names_in(view, store.name) if isinstance(store, Store) else []
    entries = [inventory_entry(view, store, name) for name in names] if isinstance(store, Store) else []
    corrupt = [{"name": each.name, "reason": each.reason} for each in entries if isinstance(each, Corrupt)]
    body = {"handles": [each for each in entries if isinstance(each, dict)], "corrupt": corrupt}
    return replace(accepted, answer=replace(accepted.answer, body=body))


def names_in(view: View, store: str) -> list[str]:
    """The names under which the store will have records, by looking at every key."""
    keys = {*view.state.records, *(key for layer in view._layers for key in layer.records)}
    located = [handle_of(key) for key in keys if view.get(key) is not None]
    return sorted(each[1] for each in located if each is not None and each[0] == store)


def blob(content: str) -> BlobRef:
    """Bytes that lie in the blob store."""
    return BlobRef(f"blob-{content}", len(content), content.encode().hex().ljust(64, "0")[:64])


def add(session: str, name: str, content: str = "x", key: str | None = None, attempt: int = 1, **more: Any) -> Add:
    """An add in the usual store."""
    return Add(Attempt(session, key, attempt), store_name=STORE, name=name, blob=blob(content), **more)


def replacement(
    session: str, name: str, version: str, content: str = "y", key: str | None = None, attempt: int = 1, **more: Any
) -> Replace:
    """A replace in the usual store."""
    return Replace(
        Attempt(session, key, attempt), store_name=STORE, name=name, version=version, blob=blob(content), **more
    )


def retried(request: Asked, number: int, *, key: str | None = None) -> Asked:
    """The same request, tried for the ``number``-th time, under ``key`` if that is given."""
    attempt = Attempt(request.session, key or request.key, number)
    return replace(request, attempt=attempt)
