"""Locks: of one handle, of all handles of a store at once, and what is left of them."""

from __future__ import annotations

import pytest

from milepost.wire import Code
from milepost_server.model.requests.base import Attempt, Request
from milepost_server.model.requests.handles import LockAll, LockHandle, ReleaseAll, ReleaseHandle, Remove
from milepost_server.model.requests.sessions import EndSession, ExpireSession, OpenSession
from tests.service.rules.bench import STORE, Bench, add, replacement

LOCK_ALL, RELEASE_ALL = LockAll(Attempt("b"), store_name=STORE), ReleaseAll(Attempt("b"), store_name=STORE)
LOCK = LockHandle(Attempt("b"), store_name=STORE, name="h")
RELEASE = ReleaseHandle(Attempt("b"), store_name=STORE, name="h")


def holders_of(bench: Bench, name: str) -> list[str]:
    holders: list[str] = bench.done(LockHandle(Attempt("watcher"), store_name=STORE, name=name))["locks"]
    bench.done(ReleaseHandle(Attempt("watcher"), store_name=STORE, name=name))
    return [holder for holder in holders if holder != "watcher"]


@pytest.mark.parametrize(
    ("acts", "held"),
    [
        ([], False),
        ([LOCK], True),
        ([LOCK, LOCK], True),
        ([LOCK, RELEASE], False),
        ([LOCK_ALL], True),
        ([LOCK_ALL, RELEASE], False),
        ([LOCK_ALL, RELEASE_ALL], False),
        ([LOCK, RELEASE_ALL], False),
        ([RELEASE_ALL, LOCK], True),
        ([LOCK_ALL, RELEASE, LOCK], True),
        ([LOCK_ALL, RELEASE, LOCK, RELEASE], False),
        ([LOCK, LOCK_ALL, RELEASE], False),
        ([LOCK_ALL, RELEASE, LOCK_ALL], True),
        ([LOCK_ALL, RELEASE, LOCK_ALL, RELEASE], False),
        ([LOCK_ALL, RELEASE_ALL, LOCK_ALL], True),
        ([LOCK_ALL, RELEASE, RELEASE_ALL, LOCK, RELEASE], False),
    ],
    ids=lambda acts: "-".join(type(act).__name__ for act in acts) if isinstance(acts, list) else str(acts),
)
def test_a_lock_is_there_until_it_is_given_back(acts: list[Request], held: bool) -> None:
    bench = Bench("a", "b", "watcher")
    bench.done(add("a", "h"))
    for act in acts:
        bench.done(act)
    assert holders_of(bench, "h") == (["a", "b"] if held else ["a"])


def test_locking_all_tells_all_by_name_and_locks_nothing_that_comes_later() -> None:
    bench = Bench("a", "b", "watcher")
    for name in ("late", "early"):
        bench.done(add("a", name))
    listed = bench.done(LOCK_ALL)
    assert [(handle["name"], handle["locks"]) for handle in listed["handles"]] == [
        ("early", ["a", "b"]),
        ("late", ["a", "b"]),
    ]
    bench.done(add("a", "later"))
    assert holders_of(bench, "later") == ["a"]


def test_releasing_one_handle_keeps_the_locks_on_the_others() -> None:
    bench = Bench("a", "b", "watcher")
    for name in ("h", "other"):
        bench.done(add("a", name))
    bench.done(LOCK_ALL)
    bench.done(RELEASE)
    assert (holders_of(bench, "h"), holders_of(bench, "other")) == (["a"], ["a", "b"])


def test_releasing_what_is_not_held_or_not_there_changes_nothing() -> None:
    bench = Bench("a", "b")
    bench.done(add("a", "h"))
    assert bench.accepted(RELEASE).changes == {}
    assert bench.accepted(ReleaseHandle(Attempt("b"), store_name=STORE, name="absent")).changes == {}


@pytest.mark.parametrize("end", ["end", "expire"])
@pytest.mark.parametrize("act", [LOCK, LOCK_ALL])
def test_the_locks_of_a_session_end_with_it(act: Request, end: str) -> None:
    bench = Bench("a", "b", "watcher")
    bench.done(add("a", "h"))
    bench.done(act)
    created_revision = bench.session("b").created_revision
    bench.done(
        EndSession(Attempt("b")) if end == "end" else ExpireSession(Attempt("b"), created_revision=created_revision)
    )
    assert holders_of(bench, "h") == ["a"]
    assert bench.done(Remove(Attempt("a"), store_name=STORE, name="h")) == {"removed": True}


def test_a_session_of_the_same_id_does_not_inherit_locks() -> None:
    bench = Bench("a", "b", "watcher")
    bench.done(add("a", "h"))
    bench.done(LOCK)
    bench.done(LOCK_ALL)
    bench.done(EndSession(Attempt("b")))
    bench.forget_sessions()
    bench.done(OpenSession(Attempt("b"), ttl=5.0))
    assert holders_of(bench, "h") == ["a"]


def test_a_removal_waits_for_the_locks_of_others_and_gives_ones_own_back() -> None:
    bench = Bench("a", "b", "watcher")
    bench.done(add("a", "h"))
    bench.done(LOCK)
    assert bench.done(Remove(Attempt("a"), store_name=STORE, name="h")) == {"removed": False, "locks": ["b"]}
    assert holders_of(bench, "h") == ["b"]
    assert bench.accepted(Remove(Attempt("a"), store_name=STORE, name="h")).changes == {}
    assert bench.done(Remove(Attempt("b"), store_name=STORE, name="h")) == {"removed": True}


def test_a_replacement_needs_a_lock_of_the_session_and_keeps_those_of_others() -> None:
    bench = Bench("a", "b", "watcher")
    version = bench.done(add("a", "h"))["version"]
    assert bench.code(replacement("b", "h", version)) is Code.NOT_LOCKED
    bench.done(LOCK_ALL)
    version = bench.done(replacement("b", "h", version))["version"]
    assert holders_of(bench, "h") == ["a", "b"]
    bench.done(RELEASE)
    assert bench.code(replacement("b", "h", version)) is Code.NOT_LOCKED


def test_the_locks_of_the_dead_are_scrubbed_when_their_record_is_written() -> None:
    bench = Bench("a", "b", "watcher")
    version = bench.done(add("a", "h"))["version"]
    bench.done(LOCK)
    bench.done(EndSession(Attempt("b")))
    assert {lock.session for lock in bench.handle("h").locks} == {"a", "b"}
    bench.done(replacement("a", "h", version))
    assert {lock.session for lock in bench.handle("h").locks} == {"a"}
