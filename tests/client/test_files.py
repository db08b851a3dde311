"""What is kept of the files of a job, in both flavours, over the real service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

import milepost
from milepost.types import Clone, KeptSnapshots, Savepoint, Snapshot
from tests.client.conftest import Service
from tests.wire.webhdfs.hadoop import Tree

LARGE = b"large" * 1000


@pytest.fixture
def store(client: Any, name: str) -> Iterator[Any]:
    with client.session(holder="a", ttl=30) as session:
        yield session.store(name)


@pytest.fixture
def files(store: Any, service: Service, name: str) -> Iterator[Tree]:
    store.campaign()
    with httpx.Client(base_url=service.url, timeout=60.0) as http:
        yield Tree(http, name, store.epoch)


def commit(files: Tree, batch: int, state: bytes) -> None:
    """Write what Spark writes for a batch."""
    assert files.create("checkpoint/state", state, overwrite=True).status_code == 201
    assert files.create(f"checkpoint/commits/{batch}", b"v1").status_code == 201


def test_a_job_without_files_has_no_cuts(store: Any) -> None:
    assert store.files.snapshots() == KeptSnapshots([], [])
    with pytest.raises(milepost.NotExist):
        store.files.make_savepoint("savepoint")
    found = store.files.verify()
    assert (found.files, found.bytes, found.intact, found.damaged) == (0, 0, True, [])


def test_a_rollback_brings_back_the_files_of_a_cut(store: Any, files: Tree) -> None:
    for batch in range(3):
        commit(files, batch, f"state {batch}".encode())
    assert files.create("checkpoint/offsets/3", b"plan 3").status_code == 201
    snapshots = store.files.snapshots().snapshots
    assert [(snapshot.directory, snapshot.batch) for snapshot in snapshots] == [
        ("checkpoint", 0),
        ("checkpoint", 1),
        ("checkpoint", 2),
    ]
    assert store.files.roll_back(snapshots[1].revision) == snapshots[1].revision
    assert files.read("checkpoint/state").content == b"state 1"
    assert files.read("checkpoint/commits/2").status_code == 404
    kept = store.files.snapshots()
    assert kept.snapshots == snapshots[:2]
    later, before = kept.passed_over
    assert later == snapshots[2]
    assert (before.directory, before.batch) == ("checkpoint", 2)
    assert store.files.make_savepoint("passed-over", later.revision) == later.revision
    store.files.drop_savepoint("passed-over")
    assert store.files.make_savepoint("newest") == snapshots[1].revision
    store.files.drop_savepoint("newest")
    commit(files, 2, b"another state 2")
    assert files.read("checkpoint/state").content == b"another state 2"
    for back in (later, before):
        assert files.read(f".snapshot/{back.name}/checkpoint/state").content == b"state 2"
        store.files.roll_back(back.revision)
        assert files.read("checkpoint/state").content == b"state 2"
        assert store.files.snapshots().snapshots == [*snapshots[:2], back]
    assert files.read("checkpoint/offsets/3").content == b"plan 3"
    assert later in store.files.snapshots().passed_over


def test_what_a_rollback_passed_over_is_kept_for_ten_batches(store: Any, files: Tree) -> None:
    for batch in range(3):
        commit(files, batch, f"state {batch}".encode())
    snapshots = store.files.snapshots().snapshots
    store.files.roll_back(snapshots[0].revision)
    for batch in range(1, 10):
        commit(files, batch, f"another state {batch}".encode())
    kept = store.files.snapshots().passed_over
    assert kept[:2] == snapshots[1:]
    # The newest shows what was there right before, unless another store of the service was written in between.
    assert [(each.directory, each.batch) for each in kept[2:]] in ([], [("checkpoint", 2)])
    assert files.read(f".snapshot/{snapshots[2].name}/checkpoint/state").content == b"state 2"
    commit(files, 10, b"state")
    assert store.files.snapshots().passed_over == []
    with pytest.raises(milepost.NotExist):
        store.files.roll_back(snapshots[2].revision)


def test_a_rollback_leaves_alone_what_it_is_told_to(store: Any, files: Tree) -> None:
    for batch in range(3):
        assert files.create(f"checkpoint/offsets/{batch}", f"plan {batch}".encode()).status_code == 201
        assert files.create(f"checkpoint/sources/0/{batch}", b"v1").status_code == 201
        commit(files, batch, f"state {batch}".encode())
    first = store.files.snapshots().snapshots[0].revision
    for keep in (["checkpoint/offsets/7"], ["checkpoint/sources", "nowhere/x"]):
        with pytest.raises(milepost.NotExist):
            store.files.roll_back(first, keep=keep)
    for keep in (["/"], ["a/../b"], [f"checkpoint/{number}" for number in range(17)]):
        with pytest.raises(milepost.BadRequest):
            store.files.roll_back(first, keep=keep)
    store.files.roll_back(first, keep=["checkpoint/offsets/1", "/checkpoint/sources"])
    assert files.read("checkpoint/state").content == b"state 0"
    assert files.names("checkpoint/offsets") == ["0", "1"]
    assert files.read("checkpoint/offsets/1").content == b"plan 1"
    assert files.names("checkpoint/sources/0") == ["0", "1", "2"]
    assert files.names("checkpoint/commits") == ["0"]


def test_a_rollback_replaces_a_handle_in_the_same_commit(store: Any, files: Tree) -> None:
    for batch in range(2):
        commit(files, batch, f"state {batch}".encode())
    first = store.files.snapshots().snapshots[0].revision
    added = store.add_and_lock("job", b"batch 1", labels={"batch": "1"})
    whole = milepost.StateReplacement("job", added.version, bytes(256 * 1024))
    assert "x00" not in repr(whole)
    for error, wrong in (
        (milepost.VersionMismatch, replace(whole, version="5f0c1e9ab3d2.1")),
        (milepost.NotExist, replace(whole, name="other")),
        (milepost.InvalidName, replace(whole, name="a/b")),
        (milepost.TooLarge, replace(whole, state=whole.state + b"x")),
    ):
        with pytest.raises(error):
            store.files.roll_back(first, replace=wrong)
    assert (store.get("job"), files.read("checkpoint/state").content) == (added, b"state 1")
    assert store.files.roll_back(first, replace=whole) == first
    found = store.get("job")
    assert (store.read("job"), found.labels, found.locks) == (whole.state, added.labels, added.locks)
    assert (files.read("checkpoint/state").content, files.read("checkpoint/commits/1").status_code) == (b"state 0", 404)
    store.files.roll_back(first, replace=replace(whole, version=found.version, state=b"", labels={}))
    assert (store.read("job"), store.get("job").labels) == (b"", {})
    store.release("job")
    with pytest.raises(milepost.NotLocked):
        store.files.roll_back(first, replace=replace(whole, version=store.get("job").version))


def test_only_the_current_epoch_rolls_back(store: Any, files: Tree) -> None:
    commit(files, 0, b"state")
    revision = store.files.snapshots().snapshots[0].revision
    with pytest.raises(milepost.Fenced):
        store.under(files.epoch + 1 if files.epoch else 1).files.roll_back(revision)
    with pytest.raises(milepost.NotExist):
        store.files.roll_back(revision + 1)
    assert files.read("checkpoint/state").content == b"state"


def test_a_pin_keeps_a_cut(store: Any, files: Tree) -> None:
    commit(files, 0, LARGE)
    first = store.files.make_savepoint("before-upgrade")
    for batch in range(1, 13):
        commit(files, batch, f"state {batch}".encode())
    kept = store.files.snapshots()
    assert [snapshot.batch for snapshot in kept.snapshots] == list(range(3, 13))
    assert kept.savepoints == [Savepoint("before-upgrade", Snapshot("checkpoint", 0, first))]
    told = [kept.savepoints[0].snapshot, *kept.snapshots]
    assert {snapshot.epoch for snapshot in told} == {files.epoch}
    assert sorted(snapshot.taken for snapshot in told) == [snapshot.taken for snapshot in told]
    assert store.files.make_savepoint("before-upgrade", first) == first
    with pytest.raises(milepost.AlreadyExists):
        store.files.make_savepoint("before-upgrade")
    store.files.roll_back(first)
    assert files.read("checkpoint/state").content == LARGE
    (there,) = store.files.snapshots().snapshots
    assert (there.batch, there.revision) == (0, first)
    store.files.drop_savepoint("before-upgrade")
    with pytest.raises(milepost.NotExist):
        store.files.drop_savepoint("before-upgrade")
    left = store.files.snapshots()
    assert (left.snapshots, left.savepoints) == ([there], [])
    # Ten are kept. The tree as it was is one of its own if the service did anything since the newest snapshot.
    assert set(kept.snapshots[1:]) <= set(left.passed_over)


def test_a_verification_names_what_is_damaged_and_which_cuts_are_whole(
    store: Any, files: Tree, service: Service
) -> None:
    commit(files, 0, LARGE)
    commit(files, 1, LARGE + b"more")
    found = store.files.verify(digests=True)
    assert [(snapshot.taken, snapshot.epoch) for snapshot in found.kept.snapshots] == [
        (snapshot.taken, snapshot.epoch) for snapshot in store.files.snapshots().snapshots
    ]
    assert (found.intact, found.damaged_count, found.files) == (True, 0, 3)
    assert [snapshot.intact for snapshot in found.kept.snapshots] == [True, True]
    blob = service.blob(LARGE + b"more")
    blob.write_bytes(LARGE + b"MORE")
    assert store.files.verify().intact
    found = store.files.verify(digests=True)
    assert not found.intact
    assert [(file.path, file.reason) for file in found.damaged] == [
        ("checkpoint/state", "the stored bytes do not match their digest")
    ]
    assert [snapshot.intact for snapshot in found.kept.snapshots] == [True, False]
    blob.unlink()
    found = store.files.verify()
    assert (found.intact, found.damaged_count) == (False, 1)
    store.files.roll_back(found.kept.snapshots[0].revision)
    found = store.files.verify(digests=True)
    assert (found.intact, found.damaged_count) == (True, 0)
    assert {snapshot.intact for snapshot in found.kept.passed_over} == {False}
    assert files.read("checkpoint/state").content == LARGE


def test_a_clone_begins_another_job_with_a_snapshot(store: Any, files: Tree, service: Service) -> None:
    commit(files, 0, LARGE)
    store.files.make_savepoint("before-upgrade")
    (savepoint,), (snapshot,) = store.files.snapshots().savepoints, store.files.snapshots().snapshots
    assert files.read(f".snapshot/{savepoint.name}/checkpoint/state").content == LARGE
    commit(files, 1, b"other")
    assert files.read(f".snapshot/{snapshot.name}/checkpoint/state").content == LARGE
    with milepost.Client(service.url) as client, client.session(ttl=60) as session:
        other = session.store(f"{store.name}-clone")
        other.campaign()
        with pytest.raises(milepost.Fenced):
            other.under(99).files.clone(store.name, savepoint.name)
        with pytest.raises(milepost.NotExist):
            other.files.clone(store.name, "never-pinned")
        assert other.files.clone(store.name, savepoint.name, timeout=60) == Clone(2, len(LARGE) + 2)
        copy = Tree(files.http, other.name, None)
        assert copy.read("checkpoint/state").content == LARGE
        assert copy.read("checkpoint/commits/1").status_code == 404
        with pytest.raises(milepost.NotEmpty):
            other.files.clone(store.name, savepoint.name)
