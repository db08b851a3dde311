"""add, replace, remove and what is left of a handle."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.model.records import Corrupt, handle_key
from milepost_server.model.requests.base import Attempt, BlobRef, Request
from milepost_server.model.requests.handles import Add, Clear, LockHandle, ReleaseHandle, Remove
from tests.service.rules.bench import STORE, Bench, add, blob, replacement, retried

REMOVE = Remove(Attempt("a"), store_name=STORE, name="h")


@pytest.fixture
def bench() -> Bench:
    return Bench("a", "b")


def test_an_added_handle_is_returned_whole_and_locked_for_its_session(bench: Bench) -> None:
    accepted = bench.accepted(add("a", "h", "bytes", labels={"batch": "7"}))
    at = bench.context
    assert accepted.answer.created
    assert accepted.answer.version == at.version == "l.3"
    assert accepted.answer.body == {
        "name": "h",
        "version": at.version,
        "size": 5,
        "sha256": blob("bytes").sha256,
        "created": at.wall,
        "updated": at.wall,
        "labels": {"batch": "7"},
        "locks": ["a"],
        "epoch": None,
        "removing": False,
    }


def test_a_name_is_taken_until_its_handle_is_removed(bench: Bench) -> None:
    first = bench.done(add("a", "h"))["version"]
    taken = bench.refused(add("b", "h"))
    assert (taken.code, taken.extras) == (Code.ALREADY_EXISTS, {"current": first})
    finish = bench.accepted(REMOVE).finish
    assert finish is not None
    assert (finish.version, finish.blob) == (first, blob("x").key)
    assert bench.blocked(add("b", "h")) == finish
    bench.finish(finish)
    again = bench.done(add("b", "h", "new"))
    assert again["version"] != first
    assert again["locks"] == ["b"]


def test_a_replacement_is_a_compare_and_set_and_lets_the_old_bytes_go(bench: Bench) -> None:
    first = bench.done(add("a", "h", "old", labels={"batch": "7"}))
    stale = bench.refused(replacement("a", "h", "l.999"))
    assert (stale.code, stale.extras) == (Code.VERSION_MISMATCH, {"current": first["version"]})
    accepted = bench.accepted(replacement("a", "h", first["version"], "new"))
    assert accepted.discards == (blob("old").key,)
    replaced = accepted.answer.body
    assert replaced["version"] == bench.context.version
    assert (replaced["sha256"], replaced["labels"]) == (blob("new").sha256, {"batch": "7"})
    assert (replaced["created"], replaced["updated"]) == (first["created"], bench.context.wall)
    relabelled = bench.done(replacement("a", "h", replaced["version"], "newer", labels={}))
    assert relabelled["labels"] == {}


def test_a_version_is_moved_by_a_new_state_and_by_nothing_else(bench: Bench) -> None:
    version = bench.done(add("a", "h"))["version"]
    bench.done(LockHandle(Attempt("b"), store_name=STORE, name="h"))
    bench.done(ReleaseHandle(Attempt("b"), store_name=STORE, name="h"))
    assert bench.handle("h").version == version


@pytest.mark.parametrize(
    "request_", [replacement("a", "h", "l.1"), LockHandle(Attempt("a"), store_name=STORE, name="h")]
)
def test_what_is_absent_removing_or_cleared_does_not_exist(bench: Bench, request_: Request) -> None:
    assert bench.code(request_) is Code.NOT_EXIST
    bench.done(add("a", "h"))
    finish = bench.accepted(REMOVE).finish
    assert bench.code(request_) is Code.NOT_EXIST
    assert finish is not None
    bench.finish(finish)
    assert bench.code(request_) is Code.NOT_EXIST
    bench.done(add("a", "h"))
    bench.done(Clear(Attempt("a"), store_name=STORE))
    assert bench.code(request_) is Code.NOT_EXIST


def test_a_removal_may_name_a_version(bench: Bench) -> None:
    version = bench.done(add("a", "h"))["version"]
    assert bench.code(Remove(Attempt("a"), store_name=STORE, name="h", version="l.1")) is Code.VERSION_MISMATCH
    assert bench.done(Remove(Attempt("a"), store_name=STORE, name="h", version=version)) == {"removed": True}


def test_a_removal_that_has_begun_is_finished_by_the_next_one_who_removes(bench: Bench) -> None:
    bench.done(add("a", "h"))
    finish = bench.accepted(REMOVE).finish
    resumed = bench.accepted(Remove(Attempt("b"), store_name=STORE, name="h"))
    assert (resumed.answer.body, resumed.changes, resumed.finish) == ({"removed": True}, {}, finish)
    assert finish is not None
    assert bench.finish(finish).changes
    assert bench.finish(finish).changes == {}
    assert bench.accepted(REMOVE).finish is None


def test_a_small_state_goes_with_its_record_at_once(bench: Bench) -> None:
    """There is no blob that has to go first, so nothing is left to finish."""
    few = BlobRef("", 2, "cd")
    version = bench.done(add("a", "h", "old"))["version"]
    accepted = bench.accepted(replace(replacement("a", "h", version), blob=few, data=b"v1"))
    assert accepted.discards == (blob("old").key,)
    assert (bench.handle("h").blob, bench.handle("h").data) == ("", b"v1")
    removed = bench.accepted(REMOVE)
    assert (removed.answer.body, removed.finish) == ({"removed": True}, None)
    assert (bench.handle("h").gone, bench.handle("h").data) == (True, None)
    bench.done(replace(add("a", "h"), blob=few, data=b"v2"))
    assert bench.handle("h").data == b"v2"
    bench.accepted(replacement("a", "h", bench.handle("h").version, "large"))
    assert (bench.handle("h").blob, bench.handle("h").data) == (blob("large").key, None)


def test_a_removal_is_finished_for_the_version_that_was_removed_alone(bench: Bench) -> None:
    bench.done(add("a", "h"))
    finish = bench.accepted(REMOVE).finish
    assert finish is not None
    bench.finish(finish)
    bench.done(add("a", "h"))
    bench.done(REMOVE)
    assert bench.finish(finish).changes == {}
    assert bench.handle("h").removing


def test_a_handle_added_over_a_cleared_one_leaves_its_bytes_to_the_collector(bench: Bench) -> None:
    bench.done(add("a", "h", "old"))
    bench.done(Clear(Attempt("a"), store_name=STORE))
    accepted = bench.accepted(add("a", "h", "new"))
    assert (accepted.orphans, accepted.discards) == ((blob("old").key,), ())


def test_a_damaged_record_is_reported_and_can_be_removed(bench: Bench) -> None:
    bench.put(handle_key(STORE, "h"), Corrupt("h", "not JSON"))
    assert bench.code(add("a", "h")) is Code.ALREADY_EXISTS
    assert bench.code(LockHandle(Attempt("a"), store_name=STORE, name="h")) is Code.CORRUPT
    assert bench.code(replacement("a", "h", "l.1")) is Code.CORRUPT
    assert bench.done(REMOVE) == {"removed": True}
    assert bench.done(add("a", "h"))["locks"] == ["a"]


def test_the_removal_of_a_damaged_record_is_applied_once(bench: Bench) -> None:
    bench.put(handle_key(STORE, "h"), Corrupt("h", "not JSON"))
    request = Remove(Attempt("a", "k"), STORE, "h")
    assert bench.done(request) == {"removed": True}
    added = bench.done(add("a", "h"))
    again = bench.accepted(retried(request, 2))
    assert (again.answer.replayed, again.answer.body, again.changes) == (True, {"removed": True}, {})
    assert bench.handle("h").version == added["version"]


def test_a_first_change_founds_the_store(bench: Bench) -> None:
    assert list(bench.state.stores()) == []
    accepted = bench.accepted(Add(Attempt("a"), store_name="new", name="h", blob=blob("x")))
    assert sorted(accepted.changes) == ["stores/new", "stores/new/handles/h"]
    assert sorted(bench.accepted(Add(Attempt("a"), store_name="new", name="i", blob=blob("y"))).changes) == [
        "stores/new/handles/i"
    ]
