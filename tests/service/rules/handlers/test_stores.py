"""Acts on a store as a whole, and what is dropped from it."""

from __future__ import annotations

from milepost_server.model.records import Corrupt, handle_key
from milepost_server.model.requests.base import LEADER, Attempt
from milepost_server.model.requests.handles import Clear, LockAll, LockHandle, Remove, Scrub
from milepost_server.rules.handlers.handles import absent
from tests.service.rules.bench import STORE, Bench, add, blob

CLEAR = Clear(Attempt("a"), store_name=STORE)


def test_clearing_takes_every_pointer_whoever_holds_it_and_counts_them() -> None:
    bench = Bench("a", "b")
    for name in ("one", "two"):
        bench.done(add("b", name))
    cleared = bench.accepted(CLEAR)
    assert cleared.answer.body == {"cleared": 2}
    assert (cleared.discards, cleared.orphans) == ((), ())
    assert all(absent(bench.store(), bench.handle(name)) for name in ("one", "two"))
    assert bench.done(LockAll(Attempt("a"), store_name=STORE)) == {"handles": [], "corrupt": []}
    assert bench.accepted(CLEAR).changes == {}


def test_what_is_added_after_a_clear_stays() -> None:
    bench = Bench("a")
    bench.done(add("a", "old"))
    bench.done(CLEAR)
    bench.done(add("a", "new"))
    assert [handle["name"] for handle in bench.done(LockAll(Attempt("a"), store_name=STORE))["handles"]] == ["new"]
    assert bench.done(CLEAR) == {"cleared": 1}


def test_damaged_records_are_listed_apart_and_go_with_a_clear() -> None:
    bench = Bench("a")
    for name in ("a", "b", "c"):
        bench.done(add("a", name))
    bench.put(handle_key(STORE, "b"), Corrupt("b", "not JSON"))
    listed = bench.done(LockAll(Attempt("a"), store_name=STORE))
    assert [handle["name"] for handle in listed["handles"]] == ["a", "c"]
    assert listed["corrupt"] == [{"name": "b", "reason": "not JSON"}]
    assert bench.done(CLEAR) == {"cleared": 3}
    assert bench.done(LockAll(Attempt("a"), store_name=STORE)) == {"handles": [], "corrupt": []}


def test_a_listing_for_locking_skips_what_is_being_removed() -> None:
    bench = Bench("a")
    bench.done(add("a", "h"))
    bench.done(Remove(Attempt("a"), store_name=STORE, name="h"))
    assert bench.done(LockAll(Attempt("a"), store_name=STORE)) == {"handles": [], "corrupt": []}


def test_only_records_that_keep_nothing_of_use_are_scrubbed() -> None:
    bench = Bench("a")
    for name in ("stays", "removed", "cleared"):
        bench.done(add("a", name, name))
    finish = bench.accepted(Remove(Attempt("a"), store_name=STORE, name="removed")).finish
    assert finish is not None
    bench.finish(finish)
    scrub = Scrub(
        LEADER, store_name=STORE, keys=tuple(handle_key(STORE, name) for name in ("stays", "removed", "cleared"))
    )
    assert bench.accepted(scrub).changes == {}
    bench.forget_keys()
    assert bench.accepted(scrub).changes == {handle_key(STORE, "removed"): None}
    bench.done(CLEAR)
    bench.done(add("a", "stays", "again"))
    assert bench.accepted(scrub).changes == {}
    bench.forget_keys()
    dropped = bench.accepted(scrub)
    assert dropped.changes == {handle_key(STORE, "cleared"): None}
    assert dropped.orphans == (blob("cleared").key,)
    assert bench.done(LockHandle(Attempt("a"), store_name=STORE, name="stays"))["locks"] == ["a"]
