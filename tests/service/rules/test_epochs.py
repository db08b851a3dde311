"""Epochs: granted, held, resigned, orphaned, and how they fence."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.model.records import Corrupt, store_key
from milepost_server.model.requests.base import Attempt, Request
from milepost_server.model.requests.handles import (
    Campaign,
    Clear,
    LockAll,
    LockHandle,
    ReleaseAll,
    ReleaseHandle,
    Remove,
    Resign,
)
from milepost_server.model.requests.sessions import EndSession, ExpireSession, OpenSession
from tests.service.rules.bench import STORE, Bench, add, replacement


def campaign(session: str) -> Campaign:
    return Campaign(Attempt(session), store_name=STORE)


@pytest.fixture
def bench() -> Bench:
    made = Bench("a", "b")
    made.done(add("a", "h"))
    return made


def test_the_first_epoch_is_1_and_its_holder_gets_it_again(bench: Bench) -> None:
    granted = bench.accepted(campaign("a"))
    assert granted.answer.created
    assert granted.answer.body == {
        "epoch": 1,
        "session": "a",
        "holder": "the a",
        "since": bench.context.wall,
    }
    again = bench.accepted(campaign("a"))
    assert (again.answer.body, again.changes) == (granted.answer.body, {})


def test_a_held_epoch_is_refused_to_others_with_its_holder(bench: Bench) -> None:
    bench.done(campaign("a"))
    held = bench.refused(campaign("b"))
    assert (held.code, held.extras) == (Code.HELD, {"holder": "the a", "epoch": 1})


@pytest.mark.parametrize("end", ["resign", "end", "expire"])
def test_a_free_epoch_stays_current_until_the_next_is_granted(bench: Bench, end: str) -> None:
    bench.done(campaign("a"))
    created_revision = bench.session("a").created_revision
    bench.done(
        {
            "resign": Resign(Attempt("a"), store_name=STORE),
            "end": EndSession(Attempt("a")),
            "expire": ExpireSession(Attempt("a"), created_revision=created_revision),
        }[end]
    )
    assert bench.store().epoch == 1
    assert bench.done(add("b", "under-1", epoch=1))["epoch"] == 1
    assert bench.done(campaign("b"))["epoch"] == 2
    assert bench.refused(add("b", "late", epoch=1)).extras == {"current": 2}


def test_only_the_holder_resigns_and_nobody_from_nothing(bench: Bench) -> None:
    assert bench.accepted(Resign(Attempt("b"), store_name=STORE)).changes == {}
    bench.done(campaign("a"))
    refused = bench.refused(Resign(Attempt("b"), store_name=STORE))
    assert (refused.code, refused.extras["current"]) == (Code.FENCED, 1)


@pytest.mark.parametrize(
    ("held", "given", "passes"),
    [(0, None, True), (0, 0, True), (0, 1, False), (2, 2, True), (2, 1, False), (2, 3, False), (2, None, False)],
)
def test_a_write_carries_the_current_epoch_once_there_was_one(
    bench: Bench, held: int, given: int | None, passes: bool
) -> None:
    for _ in range(held):
        bench.done(campaign("a"))
        bench.done(Resign(Attempt("a"), store_name=STORE))
    version = bench.handle("h").version
    writes: list[Request] = [
        add("a", "new", epoch=given),
        replacement("a", "h", version, epoch=given),
        Remove(Attempt("a"), store_name=STORE, name="h", epoch=given),
        Clear(Attempt("a"), store_name=STORE, epoch=given),
    ]
    for write in writes:
        if passes:
            bench.accepted(write)
        else:
            refused = bench.refused(write)
            assert (refused.code, refused.extras) == (Code.FENCED, {"current": held})


def test_locking_and_releasing_need_no_epoch(bench: Bench) -> None:
    bench.done(campaign("a"))
    for act in (LockHandle, ReleaseHandle):
        bench.done(act(Attempt("b"), store_name=STORE, name="h"))
    for everything in (LockAll, ReleaseAll):
        bench.done(everything(Attempt("b"), store_name=STORE))


def test_after_a_restore_nothing_is_written_under_an_epoch_that_the_backup_knows(bench: Bench) -> None:
    """Its driver may have been deposed after the backup was made."""
    bench.done(campaign("a"))
    bench.context = replace(bench.context, epoch_floor=10)
    for epoch in (1, None, 10):
        assert bench.code(add("a", "new", epoch=epoch)) is Code.FENCED
        assert bench.code(Clear(Attempt("a"), store_name=STORE, epoch=epoch)) is Code.FENCED
    assert bench.code(campaign("b")) is Code.HELD
    assert bench.done(campaign("a"))["epoch"] == 11
    assert bench.done(campaign("a"))["epoch"] == 11
    assert bench.code(add("a", "new", epoch=1)) is Code.FENCED
    bench.done(add("a", "new", epoch=11))


def test_epochs_outlive_clear_and_rise_above_the_floor(bench: Bench) -> None:
    bench.done(campaign("a"))
    bench.done(Clear(Attempt("a"), store_name=STORE, epoch=1))
    bench.done(Resign(Attempt("a"), store_name=STORE))
    assert bench.done(campaign("b"))["epoch"] == 2
    bench.done(Resign(Attempt("b"), store_name=STORE))
    bench.context = replace(bench.context, epoch_floor=40)
    assert bench.done(campaign("a"))["epoch"] == 41


def test_a_session_of_the_same_id_does_not_inherit_the_epoch(bench: Bench) -> None:
    bench.done(campaign("a"))
    bench.done(EndSession(Attempt("a")))
    bench.forget_sessions()
    bench.done(OpenSession(Attempt("a"), ttl=5.0))
    assert bench.done(campaign("b"))["epoch"] == 2


def test_under_a_damaged_record_nothing_is_changed(bench: Bench) -> None:
    bench.put(store_key(STORE), Corrupt(STORE, "not JSON"))
    for request in (campaign("a"), add("a", "new"), LockAll(Attempt("a"), store_name=STORE)):
        assert bench.code(request) is Code.CORRUPT
