"""A rollback that also replaces the state of a handle: both in one commit, or neither."""

from __future__ import annotations

import pytest
from msgspec import structs
from msgspec.structs import replace

from milepost.wire import Code, Outcome
from milepost_server.model.history import ACTS, page_key
from milepost_server.model.records import KEPT_KEYS, Corrupt, Handle, handle_key, tree_key
from milepost_server.model.requests.base import LEADER, Attempt, BlobRef
from milepost_server.model.requests.handles import Add, ReleaseHandle, Remove, Replace
from milepost_server.model.requests.sessions import EndSession, OpenSession
from milepost_server.model.requests.trees import DropSavepoint, MakeSavepoint, RollBack
from milepost_server.model.trees import Tree
from milepost_server.rules.decisions import Accepted, Refused
from tests.service.rules.trees.bench import STORE, Bench

OLD = BlobRef("old blob", 3, "d0")
NEW = BlobRef("new blob", 4, "d1")


@pytest.fixture
def bench() -> Bench:
    """Two snapshots, and the handle of a job that session ``a`` holds; session ``b`` holds no lock."""
    made = Bench()
    for session in ("a", "b"):
        made.ask(OpenSession(Attempt(session), ttl=10.0, holder=session))
    made.ask(Add(Attempt("a"), STORE, "job", 1, OLD, {"batch": "1"}))
    made.put("commits/0", data=b"v1")
    made.put("commits/1", data=b"v1")
    made.commit()
    return made


def handle(bench: Bench) -> Handle:
    found = bench.view.handle(STORE, "job")
    assert isinstance(found, Handle)
    return found


def first(bench: Bench) -> int:
    return bench.tree().snapshots[0].revision


def both(
    bench: Bench,
    *,
    session: str = "a",
    epoch: int | None = 1,
    key: str | None = None,
    number: int = 1,
    revision: int | None = None,
    name: str = "job",
    version: str | None = None,
    blob: BlobRef = NEW,
) -> RollBack:
    """A rollback to the first snapshot with a replace at the current version, but for what is given."""
    attempt = Attempt(session, key, number)
    of_handle = Replace(attempt, STORE, name, epoch, handle(bench).version if version is None else version, blob)
    return RollBack(attempt, STORE, "", epoch, first(bench) if revision is None else revision, (), of_handle)


def stored(bench: Bench) -> tuple[Handle | Corrupt | None, Tree | Corrupt | None, int, list[str]]:
    return bench.view.handle(STORE, "job"), bench.view.tree(STORE), bench.revision, list(bench.discards)


def test_files_and_handle_go_back_in_one_commit(bench: Bench) -> None:
    before, revision = handle(bench), first(bench)
    decision = bench.ask(both(bench))
    assert isinstance(decision, Accepted)
    assert decision.changes.keys() == {handle_key(STORE, "job"), tree_key(STORE), page_key(STORE, ACTS, 1)}
    after = handle(bench)
    assert decision.answer.body == {"revision": revision, "version": after.version}
    assert after.version not in ("", before.version)
    assert (after.blob, after.size, after.sha256, after.labels) == (NEW.key, NEW.size, NEW.sha256, {"batch": "1"})
    assert (after.epoch, after.changed, after.locks) == (1, bench.revision, before.locks)
    assert bench.discards == [OLD.key]
    assert bench.visible("commits/1") is None


def test_labels_are_replaced_if_there_are_any_and_bytes_may_be_in_the_record(bench: Bench) -> None:
    asked = both(bench, blob=BlobRef("", 2, "d2"))
    assert asked.replace is not None
    asked = replace(asked, replace=replace(asked.replace, labels={"batch": "0"}, data=b"hi"))
    assert isinstance(bench.ask(asked), Accepted)
    assert (handle(bench).data, handle(bench).blob, handle(bench).labels) == (b"hi", "", {"batch": "0"})


REFUSED = {
    "no such snapshot": ({"revision": 1}, Code.NOT_EXIST),
    "no such handle": ({"name": "other"}, Code.NOT_EXIST),
    "another version": ({"version": "lineage.1"}, Code.VERSION_MISMATCH),
    "no lock": ({"session": "b"}, Code.NOT_LOCKED),
    "no session": ({"session": ""}, Code.SESSION_UNKNOWN),
    "an unknown session": ({"session": "c"}, Code.SESSION_UNKNOWN),
    "another epoch": ({"epoch": 2}, Code.FENCED),
    "no epoch": ({"epoch": None}, Code.FENCED),
}


@pytest.mark.parametrize("why", REFUSED)
def test_if_either_half_is_refused_both_stay(bench: Bench, why: str) -> None:
    members, code = REFUSED[why]
    before, request = stored(bench), both(bench, **members)  # type: ignore[arg-type]
    decision = bench.ask(request)
    assert isinstance(decision, Refused)
    assert (decision.code, decision.outcome) == (code, None)
    assert decision.extras == ({"current": handle(bench).version} if code is Code.VERSION_MISMATCH else decision.extras)
    assert stored(bench) == before


def test_what_a_replace_alone_refuses_is_refused_beside_a_rollback(bench: Bench) -> None:
    def refused(code: Code) -> None:
        before, asked = stored(bench), both(bench, version=version)
        for request in (asked, asked.replace):
            assert request is not None
            decision = bench.ask(request)
            assert isinstance(decision, Refused)
            assert decision.code is code
        assert stored(bench) == before

    version, whole = handle(bench).version, handle(bench)
    bench.ask(ReleaseHandle(Attempt("a"), STORE, "job"))
    refused(Code.NOT_LOCKED)
    for change in ({"removing": True}, {"gone": True}):
        bench.view.stage({handle_key(STORE, "job"): structs.replace(whole, **change)}, bench.revision)
        refused(Code.NOT_EXIST)
    bench.commit()
    bench.view.state.apply([(handle_key(STORE, "job"), Corrupt("job", "damaged"))])
    before = stored(bench)
    decision = bench.ask(RollBack(Attempt("a"), STORE, "", 1, first(bench), (), Replace(Attempt("a"), STORE, "job", 1)))
    assert isinstance(decision, Refused)
    assert decision.code is Code.CORRUPT
    assert stored(bench) == before


def test_an_ended_session_replaces_nothing(bench: Bench) -> None:
    request = both(bench)
    bench.ask(EndSession(Attempt("a")))
    before = stored(bench)
    decision = bench.ask(request)
    assert isinstance(decision, Refused)
    assert decision.code is Code.SESSION_EXPIRED
    assert stored(bench) == before


def test_a_handle_can_be_removed_and_a_rollback_of_the_files_alone_goes_on(bench: Bench) -> None:
    request = both(bench)
    bench.ask(Remove(Attempt("a"), STORE, "job", 1))
    gone = bench.ask(request)
    assert isinstance(gone, Refused)
    assert gone.code is Code.NOT_EXIST
    assert isinstance(bench.ask(replace(request, replace=None)), Accepted)


def test_a_retry_gets_the_first_answer_and_changes_nothing(bench: Bench) -> None:
    request = both(bench, key="k")
    done = bench.ask(request)
    assert isinstance(done, Accepted)
    before = stored(bench)
    again = bench.ask(replace(request, attempt=replace(request.attempt, number=2)))
    assert isinstance(again, Accepted)
    assert (again.answer.body, again.answer.replayed, again.changes) == (done.answer.body, True, {})
    assert stored(bench) == before


OTHERS = {
    "other bytes": {"blob": BlobRef("new blob", 4, "d3")},
    "another size": {"blob": BlobRef("new blob", 5, "d1")},
    "another handle": {"name": "other"},
    "another version": {"version": "lineage.1"},
    "another snapshot": {"revision": 1},
}


@pytest.mark.parametrize("what", [*OTHERS, "no replace", "other paths"])
def test_the_key_of_one_rollback_is_no_key_of_another(bench: Bench, what: str) -> None:
    request = both(bench, key="k")
    if what in OTHERS:
        other = both(bench, key="k", **OTHERS[what])  # type: ignore[arg-type]
    else:
        other = replace(request, **({"replace": None} if what == "no replace" else {"keep": ("commits",)}))
    assert isinstance(bench.ask(request), Accepted)
    before = stored(bench)
    decision = bench.ask(other)
    assert isinstance(decision, Refused)
    assert decision.code is Code.IDEMPOTENCY_MISMATCH
    assert stored(bench) == before


def test_a_retry_whose_answer_is_gone_is_done_only_at_the_version_that_it_names(bench: Bench) -> None:
    """The version proves that no earlier attempt was applied, as for a replace."""
    request = both(bench, key="k", number=2)

    def evict() -> None:
        for number in range(KEPT_KEYS + 1):
            assert isinstance(bench.ask(MakeSavepoint(Attempt("", f"pin {number}"), STORE, "pin")), Accepted)
            assert isinstance(bench.ask(DropSavepoint(LEADER, STORE, "pin")), Accepted)

    evict()
    doubtful = bench.ask(replace(request, replace=None))
    assert isinstance(doubtful, Refused)
    assert doubtful.code is Code.OUTCOME_UNKNOWN
    assert isinstance(bench.ask(request), Accepted)
    evict()
    before = stored(bench)
    again = bench.ask(request)
    assert isinstance(again, Refused)
    assert (again.code, again.outcome) == (Code.VERSION_MISMATCH, Outcome.UNKNOWN)
    assert stored(bench) == before
