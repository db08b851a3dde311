"""A job is dropped in one commit: nothing of it can be read afterwards, and its epoch and its history stay."""

from __future__ import annotations

import pytest

from milepost.wire import Code
from milepost_server.model.history import ACTS, BATCHES, DROPPED
from milepost_server.model.paths import path_key
from milepost_server.model.records import Corrupt, handle_key, store_key, tree_key
from milepost_server.model.requests.base import LEADER, Attempt, BlobRef
from milepost_server.model.requests.handles import Add, Campaign, DropJob, Resign
from milepost_server.model.requests.trees import CloneTree, MakeSavepoint, PutFile, RollBack
from milepost_server.model.requests.wishes import StartJob, StopJob
from milepost_server.model.trees import Tree
from milepost_server.rules.trees.visibility import visible
from tests.service.rules.bench import STORE
from tests.service.rules.history import entries_of
from tests.service.rules.test_history import Jobs


@pytest.fixture
def jobs() -> Jobs:
    """A job with a handle, three batches, a savepoint and a rollback, which session a leads under epoch 1."""
    jobs = Jobs("a", "b")
    epoch = jobs.lead("a")
    jobs.done(Add(Attempt("a", "add"), STORE, "job", epoch, BlobRef("blob", 1, "d")))
    for batch in range(3):
        jobs.commit_batch(batch, epoch)
    jobs.done(MakeSavepoint(Attempt("a", "s"), STORE, "kept", 0))
    jobs.done(RollBack(Attempt("a", "back"), STORE, "", epoch, jobs.snapshots()[0]))
    return jobs


def drop(session: str = "a", epoch: int | None = 1, number: int = 1) -> DropJob:
    return DropJob(Attempt(session, "drop", number), STORE, epoch)


def tree(jobs: Jobs) -> Tree:
    found = jobs.view.tree(STORE)
    assert isinstance(found, Tree)
    return found


def test_everything_goes_in_one_commit_and_the_epoch_and_the_history_stay(jobs: Jobs) -> None:
    dropped = jobs.accepted(drop())
    assert dropped.answer.body == {"handles": 1, "snapshots": 4}
    assert {store_key(STORE), tree_key(STORE)} < dropped.changes.keys()
    assert len(dropped.changes) == 3
    assert (tree(jobs).kept, tree(jobs).savepoints, jobs.view.count(jobs.store())) == ((), (), 0)
    assert jobs.store().is_dropped
    newest = entries_of(jobs.view, STORE, ACTS)[-1]
    assert (newest.kind, newest.epoch, newest.batch) == (DROPPED, 1, 0)
    again = jobs.accepted(drop(number=2))
    assert (again.answer.body, again.answer.replayed) == (dropped.answer.body, True)


def test_the_next_life_has_a_greater_epoch_and_a_late_driver_is_fenced(jobs: Jobs) -> None:
    jobs.accepted(drop())
    late = PutFile(LEADER, STORE, "checkpoint/offsets/3", 1, BlobRef("", 1, "d"), b"x")
    assert jobs.refused(Campaign(Attempt("b", "c"), STORE)).code is Code.HELD
    jobs.done(Resign(Attempt("a", "r"), STORE))
    assert jobs.store().is_dropped
    epoch = jobs.lead("b")
    assert (epoch, jobs.store().is_dropped) == (2, False)
    assert jobs.refused(late).code is Code.FENCED
    jobs.commit_batch(0, epoch)
    assert entries_of(jobs.view, STORE, BATCHES)[-1].replay is False


def test_a_job_that_was_stopped_stays_so_and_its_standbys_begin_no_other(jobs: Jobs) -> None:
    jobs.done(StopJob(Attempt("", "stop"), STORE))
    jobs.accepted(drop())
    jobs.done(Resign(Attempt("a", "r"), STORE))
    assert "was stopped by" in jobs.refused(Campaign(Attempt("b", "c"), STORE)).detail
    jobs.done(StartJob(Attempt("", "start"), STORE))
    assert jobs.lead("b") == 2


@pytest.mark.parametrize(("session", "epoch"), [("b", 1), ("a", 2), ("a", None)], ids=["other", "newer", "none"])
def test_only_the_holder_of_the_epoch_drops_a_job(jobs: Jobs, session: str, epoch: int | None) -> None:
    before = (jobs.store(), tree(jobs))
    assert jobs.refused(drop(session, epoch)).code is Code.FENCED
    assert (jobs.store(), tree(jobs)) == before
    jobs.done(Resign(Attempt("a", "r"), STORE))
    assert "no session holds it" in jobs.refused(drop(number=2)).detail


def test_a_job_with_damaged_files_is_not_dropped_and_damaged_handles_go(jobs: Jobs) -> None:
    key = path_key(STORE, "lost")
    jobs.state.apply([(key, Corrupt("lost", "a fault of this test"))])
    assert jobs.refused(drop()).code is Code.CORRUPT
    jobs.state.apply([(key, None)])
    handle = handle_key(STORE, "x")
    jobs.state.apply([(handle, Corrupt("x", "a fault of this test"))])
    assert jobs.accepted(drop()).changes[handle] is None


def test_files_without_a_snapshot_go_too_and_a_store_without_any_has_no_tree(jobs: Jobs) -> None:
    for name, path in (("plain", None), ("early", "checkpoint/metadata")):
        epoch = jobs.lead("b", name)
        if path is not None:
            jobs.accepted(PutFile(LEADER, name, path, epoch, BlobRef("", 1, "d"), b"x"))
        jobs.accepted(DropJob(Attempt("b", "drop"), name, epoch))
        left = jobs.view.tree(name)
        assert (left is None) is (path is None)
        assert not isinstance(left, Tree) or visible(jobs.view, jobs.store(name), left, "checkpoint/metadata") is None


def test_a_clone_begins_where_a_job_was_dropped_once_its_files_are_cleared_away(jobs: Jobs) -> None:
    jobs.accepted(drop())
    clone = CloneTree(Attempt("a", "clone"), STORE, "", 1, "other/@4")
    refused = jobs.refused(clone)
    assert (refused.code, refused.until_trimmed) == (Code.NOT_EMPTY, True)
