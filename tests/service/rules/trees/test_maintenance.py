"""Maintenance of trees among rollbacks, compacting and damage: nothing comes back, and no blob goes that something
names.
"""

from __future__ import annotations

import pytest

from milepost_server.memory.view import View
from milepost_server.model.paths import path_key
from milepost_server.model.records import Corrupt, Record
from milepost_server.model.requests.base import LEADER
from milepost_server.model.requests.trees import DropBlobs, DropCompacted, MakeSavepoint, RollBack, TrimTree
from milepost_server.model.trees import Entry, TreePath
from milepost_server.rules.decisions import Accepted
from tests.service.rules.trees.bench import STORE, Bench


def rolled_back(bench: Bench, revision: int) -> None:
    """Go back to a snapshot."""
    assert isinstance(bench.ask(RollBack(LEADER, STORE, "", 1, revision)), Accepted)


def damage(bench: Bench, path: str) -> TreePath:
    """Let the record of a path be unreadable; what it was."""
    bench.commit()
    key = path_key(STORE, path)
    was = bench.view.get(key)
    assert isinstance(was, TreePath)
    bench.view.state.apply([(key, Corrupt(key.rpartition("/")[2], "its checksum is wrong"))])
    return was


def put_back(bench: Bench, record: TreePath) -> None:
    """Let a record be again what it was."""
    bench.commit()
    bench.view.state.apply([(path_key(STORE, record.path), record)])


def cut_with(bench: Bench, path: str) -> tuple[str, int]:
    """Put a file and make a snapshot that shows it; its blob, and the revision of the snapshot."""
    blob = bench.put(path)
    bench.put("commits/0")
    return blob, bench.revision


def test_the_blob_of_a_file_that_a_rollback_brought_back_stays_when_it_is_renamed() -> None:
    bench = Bench()
    blob, snapshot = cut_with(bench, "state/0")
    bench.delete("state/0")
    rolled_back(bench, snapshot)
    bench.trim()
    bench.rename("state/0", "state/kept")
    assert "state/kept" in bench.compact()
    bench.put("commits/1")
    bench.put("commits/2")
    bench.trim()  # the snapshot is gone, and what only it showed
    assert snapshot not in bench.tree().kept
    there = bench.visible("state/kept")
    assert isinstance(there, Entry)
    assert there.blob == blob
    assert blob not in bench.discards


def test_what_was_folded_before_a_rollback_and_deleted_after_it_stays_deleted() -> None:
    bench = Bench()
    _, snapshot = cut_with(bench, "state/0")
    bench.ask(MakeSavepoint(LEADER, STORE, "pin", snapshot))
    bench.delete("state/0")
    for batch in (1, 2, 3):
        bench.put(f"commits/{batch}")
    bench.trim()
    request, paths = bench.made()
    assert "state/0" in paths
    assert isinstance(bench.ask(request), Accepted)
    rolled_back(bench, snapshot)
    assert isinstance(bench.visible("state/0"), Entry)
    bench.delete("state/0")
    bench.ask(DropCompacted(LEADER, STORE, paths))
    assert bench.visible("state/0") is None
    bench.trim()
    bench.ask(DropCompacted(LEADER, STORE, paths))
    assert bench.visible("state/0") is None


def test_what_was_deleted_while_a_manifest_was_made_of_it_does_not_come_with_the_manifest() -> None:
    bench = Bench()
    bench.put("state/0")
    request, paths = bench.made()
    bench.delete("state/0")
    bench.ask(DropCompacted(LEADER, STORE, paths))
    assert isinstance(bench.ask(request), Accepted)
    assert bench.visible("state/0") is None


def test_no_blob_is_discarded_while_a_record_cannot_be_read() -> None:
    bench = Bench()
    blob, _ = cut_with(bench, "state/0")
    bench.rename("state/0", "state/1")
    was = damage(bench, "state/0")  # the snapshot shows the file under this name
    bench.delete("state/1")
    bench.ask(DropBlobs(LEADER, STORE, (blob, "of nobody")))
    assert bench.discards == []
    put_back(bench, was)
    bench.ask(DropBlobs(LEADER, STORE, (blob, "of nobody")))
    assert bench.discards == ["of nobody"]


@pytest.mark.parametrize("undone_by", ["a range tombstone", "a rollback"])
def test_a_record_that_is_put_back_shows_nothing_that_was_undone_meanwhile(undone_by: str) -> None:
    bench = Bench()
    bench.put("commits/0")
    snapshot = bench.revision
    bench.put("state/0")
    was = damage(bench, "state/0")
    if undone_by == "a range tombstone":
        bench.delete("state", recursive=True)
    else:
        rolled_back(bench, snapshot)
    bench.trim()
    put_back(bench, was)
    assert bench.visible("state/0") is None
    bench.trim()
    assert bench.visible("state/0") is None
    assert (bench.tree().range_tombstones, bench.tree().rollbacks) == ((), ())


def test_the_tree_knows_when_a_damaged_record_was_deleted() -> None:
    bench = Bench()
    cut_with(bench, "state/0")
    bench.put("state/1")
    bench.delete("state/1")
    assert bench.tree().unsure == 0
    damage(bench, "state/0")
    bench.delete("state/0")
    assert bench.tree().unsure == bench.revision


def test_the_groups_in_flight_are_looked_through_once_for_many_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    blob = bench.put("state/0")
    bench.begin_compaction()  # there is a record of the tree
    looked: list[str] = []
    staged = View._staged

    def counted(view: View, prefix: str) -> dict[str, Record | None]:
        looked.append(prefix)
        return staged(view, prefix)

    monkeypatch.setattr(View, "_staged", counted)
    bench.ask(DropBlobs(LEADER, STORE, (blob, *(f"blob {number}" for number in range(500)))))
    assert len(looked) == 1
    assert bench.discards == [f"blob {number}" for number in range(500)]


def test_a_finished_sweep_is_forgotten_once_all_records_can_be_read() -> None:
    bench = Bench()
    bench.put("state/0")
    bench.put("other")
    was = damage(bench, "other")
    bench.delete("state", recursive=True)
    bench.trim()
    (tombstone,) = bench.tree().range_tombstones
    put_back(bench, was)
    bench.ask(TrimTree(LEADER, STORE, (), (tombstone,)))
    assert bench.tree().range_tombstones == ()
