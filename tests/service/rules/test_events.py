"""What is an event: the differences between the records before and after a change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from milepost_server.model.records import Corrupt, Store, handle_key, store_key
from milepost_server.model.requests.base import LEADER, Attempt, Request
from milepost_server.model.requests.handles import (
    Campaign,
    Clear,
    FinishRemoval,
    LockAll,
    LockHandle,
    ReleaseHandle,
    Remove,
    Resign,
    Scrub,
)
from milepost_server.model.requests.sessions import EndSession, ExpireSession
from milepost_server.model.requests.trees import DropSavepoint, MakeSavepoint, PutFile, RenamePath, RollBack
from milepost_server.rules.decide import decide
from milepost_server.rules.decisions import Accepted, Decision
from milepost_server.rules.events import LAST, MOST_EPOCHS, CommittedChanges, TooManyEvents
from tests.service.rules.bench import STORE, Bench, add, blob, replacement


class Watched(Bench):
    """A bench that keeps the events of what it decides. A group has one change, unless a test makes it larger."""

    def __init__(self, *sessions: str) -> None:
        self.seen: list[tuple[str, str, dict[str, Any]]] = []
        super().__init__(*sessions)

    def decide(self, request: Request) -> Decision:
        self.context = replace(self.context, revision=self.context.revision + 1)
        decision = decide(self.view, request, self.context)
        if isinstance(decision, Accepted):
            self.note(CommittedChanges(self.state), decision)
            self.state.apply(decision.changes.items())
        return decision

    def note(self, group: CommittedChanges, decision: Accepted) -> None:
        for store, event in group.events(decision.changes, self.context.revision):
            data = json.loads(event.data)
            assert data.pop("revision") == event.revision == self.context.revision
            self.seen.append((store, event.type, data))

    def new(self) -> list[tuple[str, dict[str, Any]]]:
        """The events since the last call, which are all of the usual store."""
        new, self.seen = self.seen, []
        assert {store for store, *_ in new} <= {STORE}
        return [(type_, data) for _, type_, data in new]


def test_a_handle_is_added_replaced_and_removed_and_its_locks_are_no_events() -> None:
    bench = Watched("a", "b")
    bench.done(Campaign(Attempt("a"), STORE))
    assert bench.new() == [("epoch-granted", {"epoch": 1, "session": "a"})]
    bench.done(add("a", "h", epoch=1))
    first = bench.handle("h").version
    bench.done(LockHandle(Attempt("b"), STORE, "h"))
    bench.done(ReleaseHandle(Attempt("b"), STORE, "h"))
    bench.done(LockAll(Attempt("b"), STORE))
    bench.done(replacement("a", "h", first, epoch=1))
    second = bench.handle("h").version
    assert not bench.done(Remove(Attempt("a"), STORE, "h", epoch=1))["removed"]
    bench.done(EndSession(Attempt("b")))
    finish = bench.accepted(Remove(Attempt("a"), STORE, "h", epoch=1)).finish
    assert finish is not None
    assert bench.new() == [
        (type_, {"name": "h", "version": version, "epoch": 1})
        for type_, version in (("added", first), ("replaced", second), ("removed", second))
    ]
    bench.finish(finish)
    bench.done(add("a", "h", epoch=1))
    bench.forget_keys()
    bench.done(Scrub(LEADER, keys=(handle_key(STORE, "h"),)))
    assert [type_ for type_, _ in bench.new()] == ["added"]


def test_a_clear_is_one_event_and_what_was_cleared_is_added_anew() -> None:
    bench = Watched("a")
    for name in ("h", "damaged"):
        bench.done(add("a", name))
    bench.put(handle_key(STORE, "damaged"), Corrupt("damaged", "not JSON"))
    bench.new()
    bench.done(Clear(Attempt("a"), STORE))
    assert bench.new() == [("cleared", {})]
    bench.done(add("a", "h"))
    assert bench.new() == [("added", {"name": "h", "version": bench.handle("h").version, "epoch": None})]


def test_a_damaged_handle_is_removed_without_a_version() -> None:
    bench = Watched("a")
    bench.put(handle_key(STORE, "h"), Corrupt("h", "not JSON"))
    bench.done(Remove(Attempt("a"), STORE, "h"))
    assert bench.new() == [("removed", {"name": "h", "version": None, "epoch": None})]


def test_an_epoch_ends_by_its_driver_or_with_its_session_and_ends_once() -> None:
    bench = Watched("a", "b")
    bench.done(Campaign(Attempt("a"), STORE))
    bench.done(Campaign(Attempt("a"), STORE))
    bench.done(Resign(Attempt("a"), STORE))
    bench.done(Campaign(Attempt("b"), STORE))
    bench.accepted(ExpireSession(Attempt("b"), bench.session("b").created_revision))
    bench.done(Campaign(Attempt("a"), STORE))
    assert [(type_, data["epoch"], data.get("reason")) for type_, data in bench.new()] == [
        ("epoch-granted", 1, None),
        ("epoch-ended", 1, "resigned"),
        ("epoch-granted", 2, None),
        ("epoch-ended", 2, "session-ended"),
        ("epoch-granted", 3, None),
    ]


def test_a_group_with_many_changes_is_read_change_by_change() -> None:
    """The state has none of them yet, and the index of who leads has none of them either."""
    bench = Watched("a")
    group, view = CommittedChanges(bench.state), bench.view
    for number, request in enumerate(
        (add("a", "h"), Campaign(Attempt("a"), STORE), Clear(Attempt("a"), STORE, epoch=1), EndSession(Attempt("a")))
    ):
        bench.context = replace(bench.context, revision=bench.context.revision + 1)
        decision = decide(view, request, bench.context)
        assert isinstance(decision, Accepted), decision
        view.stage(decision.changes, number + 1)
        bench.note(group, decision)
    assert [type_ for type_, _ in bench.new()] == ["added", "epoch-granted", "cleared", "epoch-ended"]


def test_a_session_that_held_too_many_epochs_is_not_told_store_by_store() -> None:
    bench = Watched("a")
    born = bench.session("a").created_revision
    for number in range(MOST_EPOCHS + 1):
        store = f"s{number}"
        bench.put(store_key(store), Store(store, epoch=1, epoch_session="a", epoch_session_created=born))
    with pytest.raises(TooManyEvents):
        bench.done(EndSession(Attempt("a")))


def test_snapshots_savepoints_and_rollbacks() -> None:
    bench = Watched("a")
    bench.done(Campaign(Attempt("a"), STORE))

    def put(path: str) -> None:
        bench.done(PutFile(Attempt(""), STORE, path, 1, blob=blob(path), overwrite=True))

    put("job/commits/0")
    first = bench.context.revision
    put("job/commits/1")
    bench.done(MakeSavepoint(Attempt(""), STORE, "kept", first))
    bench.done(RollBack(Attempt(""), STORE, "", 1, revision=first))
    bench.done(DropSavepoint(Attempt(""), STORE, "kept"))
    bench.done(RenamePath(Attempt(""), STORE, "job", 1, target="moved"))
    assert bench.new()[1:] == [
        ("snapshot-taken", {"directory": "job", "batch": 0}),
        ("snapshot-taken", {"directory": "job", "batch": 1}),
        ("savepoint-made", {"name": "kept", "snapshot": first}),
        ("rolled-back", {"snapshot": first}),
        ("savepoint-dropped", {"name": "kept", "snapshot": first}),
        ("snapshot-taken", {"directory": "moved", "batch": 0}),
    ]


def test_the_events_of_one_change_have_an_order_and_the_last_one_ends_the_revision() -> None:
    bench = Watched("a")
    group, view = CommittedChanges(bench.state), bench.view
    bench.done(Campaign(Attempt("a"), STORE))
    for batch in range(3):
        bench.done(PutFile(Attempt(""), STORE, f"job/commits/{batch}", 1, blob=blob("b")))
    bench.context = replace(bench.context, revision=bench.context.revision + 1)
    decision = decide(view, RenamePath(Attempt(""), STORE, "job", 1, target="moved"), bench.context)
    assert isinstance(decision, Accepted), decision
    events = [event for _, event in group.events(decision.changes, bench.context.revision)]
    assert [(event.index, json.loads(event.data)["batch"]) for event in events] == [(0, 0), (1, 1), (LAST, 2)]


def test_the_end_of_a_removal_is_no_event() -> None:
    bench = Watched("a")
    bench.done(add("a", "h"))
    finish = bench.accepted(Remove(Attempt("a"), STORE, "h")).finish
    assert finish is not None
    bench.new()
    bench.accepted(FinishRemoval(LEADER, STORE, "h", finish.version))
    assert bench.new() == []
