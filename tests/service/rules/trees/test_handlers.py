"""Single acts on trees that hypothesis finds seldom: who names a blob, what a retry gets, what is bounded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from milepost.wire import Code
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.paths import checked_path, path_key
from milepost_server.model.records import KEPT_KEYS, Corrupt, Store
from milepost_server.model.requests.base import LEADER, Attempt, BlobRef
from milepost_server.model.requests.trees import (
    CompactTree,
    DropSavepoint,
    MakeDirectory,
    MakeSavepoint,
    OntoExisting,
    PutFile,
    RollBack,
)
from milepost_server.model.trees import MOST_RANGE_TOMBSTONES, MOST_SNAPSHOTS, Entry, Savepoint, Tree
from milepost_server.rules.decide import decide
from milepost_server.rules.decisions import Accepted, DecisionContext, Refused
from milepost_server.rules.trees import visibility
from milepost_server.rules.trees.handlers import MOST_RENAMED
from milepost_server.rules.trees.visibility import visible
from tests.service.rules.trees.bench import STORE, Bench


@pytest.fixture(params=[False, True], ids=["in flight", "committed"])
def committing(request: pytest.FixtureRequest) -> bool:
    """Whether each act has been committed before the next is decided."""
    is_committed: bool = request.param
    return is_committed


def test_the_blob_of_a_renamed_file_stays_while_a_cut_shows_it_under_its_old_name(committing: bool) -> None:
    bench = Bench()
    blob = bench.put("state/0")
    bench.put("commits/0", data=b"v1")
    for act in (
        lambda: bench.rename("state/0", "state/1"),
        lambda: bench.delete("state/1"),
        bench.trim,
        lambda: bench.put("commits/1", data=b"v1"),
        bench.trim,
    ):
        if committing:
            bench.commit()
        act()
        assert bench.discards == []
    bench.put("commits/2", data=b"v1")  # the third snapshot: the first goes
    bench.trim()
    assert bench.discards == [blob]


def test_the_blob_of_a_renamed_file_goes_once_nothing_shows_it(committing: bool) -> None:
    bench = Bench()
    blob = bench.put("state/.0.tmp")
    if committing:
        bench.commit()
    bench.rename("state/.0.tmp", "state/0")
    assert bench.discards == []
    if committing:
        bench.commit()
    bench.delete("state/0")
    assert bench.discards == [blob]


def test_what_is_overwritten_goes_unless_a_cut_shows_it() -> None:
    bench = Bench()
    first = bench.put("a")
    second = bench.put("a", overwrite=True)
    assert bench.discards == [first]
    bench.put("commits/0", data=b"v1")
    bench.put("a", overwrite=True)
    assert bench.discards == [first]
    for batch in (1, 2):
        bench.put(f"commits/{batch}", data=b"v1")
    bench.trim()
    assert bench.discards == [first, second]


def test_the_newest_cuts_of_each_query_are_kept() -> None:
    bench = Bench(kept_snapshots=10)
    for batch in range(12):
        bench.put(f"a/commits/{batch}")
        bench.put(f"b/commits/{batch}")
        tree = bench.view.tree(STORE)
        assert isinstance(tree, Tree)
        kept = range(max(0, batch - 9), batch + 1)
        assert [(snapshot.directory, snapshot.batch) for snapshot in tree.snapshots] == [
            (query, each) for each in kept for query in "ab"
        ]


def test_queries_without_number_leave_a_bounded_number_of_cuts() -> None:
    bench = Bench()
    for query in range(MOST_SNAPSHOTS + 5):
        bench.put(f"{query}/commits/0")
    tree = bench.view.tree(STORE)
    assert isinstance(tree, Tree)
    assert [snapshot.directory for snapshot in tree.snapshots] == [str(query) for query in range(5, MOST_SNAPSHOTS + 5)]


def test_rollbacks_without_number_pass_over_a_bounded_number_of_snapshots() -> None:
    bench = Bench()
    bench.put("commits/0")
    (first,) = bench.tree().snapshots
    revisions = []
    for _ in range(MOST_SNAPSHOTS + 5):
        bench.put("offsets/1", overwrite=True)
        revisions.append(bench.revision)
        assert isinstance(bench.ask(RollBack(LEADER, STORE, "", 1, first.revision)), Accepted)
        bench.trim()
        bench.commit()
    passed_over = bench.tree().passed_over
    assert [snapshot.revision for snapshot in passed_over] == revisions[5:]
    assert {(snapshot.directory, snapshot.batch) for snapshot in passed_over} == {(first.directory, first.batch)}


def test_a_rollback_makes_its_target_the_newest_snapshot_and_names_what_it_leaves_by_its_batch() -> None:
    bench = Bench(kept_snapshots=2)

    def back_to(revision: int) -> int:
        """Roll back, and return the revision of what was left."""
        left = bench.revision
        assert isinstance(bench.ask(RollBack(LEADER, STORE, "", 1, revision)), Accepted)
        bench.trim()
        bench.commit()
        return left

    def kept() -> list[tuple[int, int]]:
        return [(each.batch, each.revision) for each in bench.tree().snapshots]

    def passed_over() -> list[tuple[int, int]]:
        return [(each.batch, each.revision) for each in bench.tree().passed_over]

    at = []
    for batch in range(4):
        bench.put(f"commits/{batch}")
        at.append(bench.revision)
        if batch == 0:
            bench.ask(MakeSavepoint(LEADER, STORE, "first", 0))
    bench.put("offsets/4")
    third = back_to(at[2])
    assert (kept(), passed_over()) == ([(2, at[2])], [(3, at[3]), (3, third)])
    second = back_to(third)
    assert kept() == [(2, at[2]), (3, third)], "the rollback is undone: the job is at batch 3 again"
    assert passed_over() == [(3, at[3]), (2, second)], "and what was left is batch 2"
    left = back_to(at[0])
    assert kept() == [(0, at[0])], "a savepoint, whose snapshot was dropped"
    assert passed_over() == [(3, at[3]), (2, second), (2, at[2]), (3, third), (3, left)]
    left = back_to(at[3])
    assert kept() == [(0, at[0]), (3, at[3])]
    assert passed_over()[-1] == (0, left)
    back_to(third)
    assert kept() == [(0, at[0]), (3, third)], "one snapshot for each batch"
    assert (3, at[3]) in passed_over(), "and none is lost"
    bench.put("commits/4")
    assert [batch for batch, _ in kept()] == [3, 4]


def test_of_a_renamed_query_the_latest_batches_are_kept(committing: bool) -> None:
    bench = Bench(kept_snapshots=2)
    for batch in (9, 10, 11):
        bench.put(f"a/commits/{batch}")
        if committing:
            bench.commit()
    assert isinstance(bench.rename("a", "b"), Accepted)
    tree = bench.view.tree(STORE)
    assert isinstance(tree, Tree)
    assert sorted((snapshot.directory, snapshot.batch) for snapshot in tree.snapshots if snapshot.directory == "b") == [
        ("b", 10),
        ("b", 11),
    ]


def test_what_a_rollback_brought_back_and_somebody_deleted_stays_deleted() -> None:
    bench = Bench()
    bench.put("commits/1")
    tree = bench.view.tree(STORE)
    assert isinstance(tree, Tree)
    bench.delete("commits/1")
    assert isinstance(bench.ask(RollBack(LEADER, STORE, "", 1, tree.snapshots[0].revision)), Accepted)
    assert bench.visible("commits/1") is not None
    bench.delete("commits", recursive=True)
    for _ in range(2):
        bench.trim()
        assert bench.visible("commits/1") is None


def test_a_rollback_whose_answer_was_pushed_out_is_not_made_a_second_time() -> None:
    bench = Bench()
    bench.put("commits/1")
    tree = bench.view.tree(STORE)
    assert isinstance(tree, Tree)
    to = tree.snapshots[0].revision
    assert isinstance(bench.ask(RollBack(Attempt("", "back"), STORE, "", 1, to)), Accepted)
    bench.trim()
    bench.put("offsets/2")
    for number in range(KEPT_KEYS):
        assert isinstance(bench.ask(MakeSavepoint(Attempt("", f"pin {number}"), STORE, "pin")), Accepted)
        assert isinstance(bench.ask(DropSavepoint(LEADER, STORE, "pin")), Accepted)
    again = bench.ask(RollBack(Attempt("", "back", 2), STORE, "", 1, to))
    assert isinstance(again, Refused)
    assert again.code is Code.OUTCOME_UNKNOWN
    assert bench.visible("offsets/2") is not None


def test_a_rename_that_is_asked_for_again_was_made() -> None:
    bench = Bench()
    bench.put("offsets/.0.tmp", data=b"x")
    for onto in (OntoExisting.REFUSE, OntoExisting.REPLACE, OntoExisting.ANSWER_FALSE):
        decision = bench.rename("offsets/.0.tmp", "offsets/0", onto)
        assert isinstance(decision, Accepted)
        assert decision.answer.body == {"renamed": True}


def test_of_two_that_rename_to_one_name_the_second_is_refused() -> None:
    """The second's source is still there, so that its rename was not made."""
    bench = Bench()
    for number in (1, 2):
        bench.put(f"offsets/.0.{number}.tmp", data=b"x")
    assert isinstance(bench.rename("offsets/.0.1.tmp", "offsets/0"), Accepted)
    refused = bench.rename("offsets/.0.2.tmp", "offsets/0")
    assert isinstance(refused, Refused)
    assert refused.code is Code.ALREADY_EXISTS
    store = bench.view.store(STORE)
    assert isinstance(store, Store)
    assert isinstance(visible(bench.view, store, Tree(STORE), "offsets/.0.2.tmp"), Entry)


def test_a_file_that_is_put_again_under_its_key_is_put_once() -> None:
    bench = Bench()
    bench.put("a", key="permission-1")
    again = bench.ask(PutFile(Attempt("", "permission-1", 2), STORE, "a", 1, BlobRef("other", 1, "d")))
    assert isinstance(again, Accepted)
    assert again.answer.replayed
    assert not again.changes


def test_a_directory_with_too_many_files_is_not_renamed() -> None:
    bench = Bench()
    for number in range(MOST_RENAMED):
        bench.put(f"many/{number}", data=b"")
    assert isinstance(bench.rename("many", "others"), Accepted)
    bench.put("others/one-more", data=b"")
    refused = bench.rename("others", "many")
    assert isinstance(refused, Refused)
    assert refused.code is Code.NOT_SUPPORTED


def test_sweeps_are_bounded_and_end() -> None:
    bench = Bench()
    for number in range(MOST_RANGE_TOMBSTONES + 1):
        bench.put(f"d{number}/file", data=b"")
    for number in range(MOST_RANGE_TOMBSTONES):
        assert isinstance(bench.delete(f"d{number}", recursive=True), Accepted)
    refused = bench.delete(f"d{MOST_RANGE_TOMBSTONES}", recursive=True)
    assert isinstance(refused, Refused)
    assert refused.code is Code.TOO_MANY_REQUESTS
    bench.trim()
    assert isinstance(bench.delete(f"d{MOST_RANGE_TOMBSTONES}", recursive=True), Accepted)
    bench.trim()
    assert list(bench.view.paths(STORE, "")) == []


def test_no_act_looks_through_more_dead_paths_than_it_may(monkeypatch: pytest.MonkeyPatch, committing: bool) -> None:
    monkeypatch.setattr(visibility, "MOST_TOMBSTONES", 5)
    bench = Bench()
    for number in range(6):
        bench.put(f"d/{number}")
    bench.delete("d", recursive=True)
    bench.ask(MakeDirectory(LEADER, STORE, "d", 1))
    bench.ask(MakeDirectory(LEADER, STORE, "e", 1))
    if committing:
        bench.commit()
    acts: tuple[Callable[[], Accepted | Refused], ...] = (
        lambda: bench.delete("d"),
        lambda: bench.rename("d", "f"),
        lambda: bench.rename("e", "d", OntoExisting.REPLACE),
    )
    for act in acts:
        refused = act()
        assert isinstance(refused, Refused)
        assert refused.code is Code.TOO_MANY_REQUESTS
    assert isinstance(bench.delete("d", recursive=True), Accepted)
    bench.trim()
    bench.ask(MakeDirectory(LEADER, STORE, "d", 1))
    assert isinstance(bench.delete("d"), Accepted)


def test_a_tree_without_a_current_epoch_from_before_a_restore_is_fenced() -> None:
    bench = Bench()
    context = DecisionContext(2, "lineage", "", epoch_floor=5)
    refused = decide(bench.view, MakeDirectory(LEADER, STORE, "a", 1), context)
    assert isinstance(refused, Refused)
    assert refused.code is Code.FENCED


@pytest.mark.parametrize(
    "path", ["a//b", "a/../b", ".", "a/\x00", "/".join("x" * 33), "x" * 1025, "\udcff", ".snapshot/a/" + "x" * 1025]
)
def test_paths_that_no_file_may_have(path: str) -> None:
    with pytest.raises(ValueError, match=r"part|long|character|UTF-8"):
        checked_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "a",
        "/a/b/",
        "größe=1/ü",
        "/".join("x" * 32),
        ".snapshot/a/" + "x" * 1024,
        ".snapshot/a/" + "/".join("x" * 32),
    ],
)
def test_paths_that_files_may_have(path: str) -> None:
    assert checked_path(path) == path.strip("/")


def test_what_was_folded_for_a_pin_that_went_meanwhile_is_stale_until_it_is_left_out(committing: bool) -> None:
    bench = Bench()

    def compact(blob: str, *replaced: str, savepoints: tuple[Savepoint, ...] | None = None, begun: int = 0) -> bool:
        """Let the tree have this manifest; whether it is stale then."""
        rows = ManifestRows.of([])
        bench.view.state.hold(blob, rows)
        assert isinstance(
            bench.ask(CompactTree(LEADER, STORE, replaced, rows.manifest(blob), begun, savepoints)), Accepted
        )
        if committing:
            bench.commit()
        tree = bench.view.tree(STORE)
        assert isinstance(tree, Tree)
        return tree.stale

    bench.put("commits/0")
    assert isinstance(bench.ask(MakeSavepoint(LEADER, STORE, "pin")), Accepted)
    begun = bench.begin_compaction()
    assert isinstance(bench.ask(DropSavepoint(LEADER, STORE, "pin")), Accepted)
    assert compact("first", begun=begun)
    assert compact("written anew", "first")
    assert not compact("merged", "written anew", savepoints=())


def test_a_rename_into_a_directory_is_known_when_it_is_asked_for_again(committing: bool) -> None:
    bench = Bench()
    for path in ("a/x", "b", "c/x", "d/e/x"):
        bench.put(path)
    for source, target in (("b", "a"), ("c", "f"), ("d/e", "")):
        for _ in range(2):
            answer = bench.rename(source, target, OntoExisting.ANSWER_FALSE)
            assert isinstance(answer, Accepted)
            assert answer.answer.body == {"renamed": True}
            if committing:
                bench.commit()
    for path in ("a/b", "f/x", "e/x"):
        assert isinstance(bench.visible(path), Entry)
    again = bench.rename("never", "a", OntoExisting.ANSWER_FALSE)
    assert isinstance(again, Accepted)
    assert again.answer.body == {"renamed": False}


def test_a_manifest_is_not_taken_once_another_one_has_been_begun(committing: bool) -> None:
    bench = Bench()
    bench.put("a")
    rows = ManifestRows.of([])
    bench.view.state.hold("late", rows)
    first, _ = bench.begin_compaction(), bench.begin_compaction()
    if committing:
        bench.commit()
    refused = bench.ask(CompactTree(LEADER, STORE, (), rows.manifest("late"), first))
    assert isinstance(refused, Refused)
    assert refused.code is Code.VERSION_MISMATCH


def test_a_directory_is_not_taken_for_whole_or_empty_while_a_record_cannot_be_read() -> None:
    bench = Bench()
    for path in ("a/x", "b/y"):
        bench.put(path)
    for directory in ("c", "d"):
        bench.ask(MakeDirectory(LEADER, STORE, directory, 1))
    bench.commit()
    damaged = path_key(STORE, "a/x")
    bench.view.state.apply([(damaged, Corrupt("a/x", "its digest is wrong"))])
    for answer in (
        bench.rename("a", "e"),
        bench.rename("d", "c", OntoExisting.REPLACE),
        bench.delete("a"),
    ):
        assert isinstance(answer, Refused)
        assert answer.code is Code.CORRUPT
        assert damaged in answer.detail
    for answer in (bench.rename("b/y", "b/z"), bench.delete("b/z"), bench.delete("a/x")):
        assert isinstance(answer, Accepted)
    assert isinstance(bench.rename("a", "e"), Accepted)  # in flight is a group that ends the damaged record
