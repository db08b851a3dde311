"""Going back to a snapshot: which are safe, what stays, and that a driver may die between any two of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import pytest

from milepost.errors import CheckpointDamaged, Unavailable, WrongCheckpoint
from milepost.integrity import IfDamaged
from milepost.job_record import JobRecord
from milepost.spark.recovery import recover
from milepost.spark.takeover import bring_back, fall_back, safe
from milepost.state.store.files.tree import DEFAULT_DIRECTORY
from milepost.types import DamagedFile, JobFile, KeptSnapshots, Snapshot, Verification
from milepost.wire import Code
from tests.spark.logs import Logs, left


def snapshots(*batches: int, broken: tuple[int, ...] = (), directory: str = "checkpoint") -> list[Snapshot]:
    return [Snapshot(directory, batch, 10 * batch, batch not in broken) for batch in batches]


def found(*broken: int, newest: int) -> Verification:
    """The files as they are now are damaged, and so are these cuts."""
    kept = KeptSnapshots(snapshots(*range(newest + 1), broken=broken), [])
    return Verification(9, 99, False, [DamagedFile("checkpoint/state/0/0/1.delta", "gone")], 1, kept)


class Files:
    """Goes back as the service does: what a snapshot does not show goes, but for what is kept."""

    def __init__(self, logs: Logs, *, away: bool = False, beside: Sequence[str] = ()) -> None:
        self._logs = logs
        self._beside = beside
        self._away = away
        self.kept: Sequence[str] = ()

    def list(self, directory: str) -> Iterator[JobFile]:
        assert directory == ""
        for path in ("checkpoint", *self._beside):
            yield JobFile(path, True, 0, None, "v", datetime.now(timezone.utc))

    def roll_back(self, revision: int, *, keep: Sequence[str]) -> int:
        if self._away:
            raise Unavailable(Code.NO_LEADER)
        self.kept = keep
        kept = [path.removeprefix("checkpoint/") for path in keep]
        for path in list(self._logs.files):
            number = path.rpartition("/")[2]
            later = number.isdigit() and int(number) > revision // 10
            if later and not any(path == each or path.startswith(f"{each}/") for each in kept):
                del self._logs.files[path]
        return revision


def went_back(logs: Logs, report: Verification, published: int, **files: Any) -> Snapshot | None:
    service: Any = Files(logs, **files)
    return fall_back(report, logs, service, published, IfDamaged.FALL_BACK, "flights")


def names(logs: Logs) -> dict[str, list[str]]:
    return {log: logs.names(log) for log in ("offsets", "commits", "sources/0", "set-aside")}


def logged(batches: int, committed: int) -> Logs:
    """A checkpoint in which a source has noted each batch, too."""
    logs = left(batches, committed)
    for batch in range(batches + 1):
        logs.put(f"sources/0/{batch}", f"files of {batch}")
    return logs


@pytest.mark.parametrize(
    ("last", "published", "batches"),
    [
        (5, 5, [4, 5]),  # ended in order, or between publication and commit
        (5, 4, [3, 4, 5]),  # died in batch 5, after 4 was published
        (5, -1, [4, 5]),  # a query of which nothing is known
        (0, -1, [0]),
        (1, 0, [0, 1]),
    ],
)
def test_cuts_are_safe_after_which_all_is_run_again_with_its_input(
    last: int, published: int, batches: list[int]
) -> None:
    kept = [*snapshots(*range(8)), *snapshots(*range(8), directory="elsewhere")]
    assert [snapshot.batch for snapshot in safe(kept, last, published)] == batches
    assert {snapshot.directory for snapshot in safe(kept, last, published)} == {"checkpoint"}


def test_the_published_batch_is_run_again_with_the_input_that_it_had() -> None:
    logs = logged(3, 3)
    snapshot = went_back(logs, found(3, newest=3), 3)
    assert snapshot is not None
    assert snapshot.batch == 2
    assert names(logs) == {
        "offsets": ["0", "1", "2", "3"],
        "commits": ["0", "1", "2"],
        "sources/0": ["0", "1", "2", "3"],
        "set-aside": [],
    }


@pytest.mark.parametrize("beside", [[], ["_milepost", "output"]])
def test_managed_state_in_the_tree_stays(beside: list[str]) -> None:
    """The record names the commits of the batch that was published last, which an older snapshot does not have."""
    logs = logged(3, 3)
    service: Any = Files(logs, beside=beside)
    assert fall_back(found(3, newest=3), logs, service, 3, IfDamaged.FALL_BACK, "flights") is not None
    assert [path for path in service.kept if not path.startswith("checkpoint/")] == beside[:1]
    assert DEFAULT_DIRECTORY.startswith("_milepost/")


@pytest.mark.parametrize("dies", ["never", "before the rollback", "before the old offsets are deleted"])
def test_two_batches_are_run_again_one_after_the_other(dies: str) -> None:
    logs, report = logged(4, 3), found(3, newest=3)
    planned = logs.files["offsets/4"]
    if dies == "before the rollback":
        with pytest.raises(Unavailable):
            went_back(logs, report, 3, away=True)
    if dies == "before the old offsets are deleted":
        logs.files["set-aside/4"] = planned
    snapshot = went_back(logs, report, 3)
    assert snapshot is not None
    assert snapshot.batch == 2
    bring_back(logs)
    assert names(logs) == {
        "offsets": ["0", "1", "2", "3"],
        "commits": ["0", "1", "2"],
        "sources/0": ["0", "1", "2", "3", "4"],
        "set-aside": ["4"],
    }
    found_first = recover(
        logs, JobRecord("job", 1, 3), 7, job="flights", setting=lambda _: None, modified_ms=lambda _: 0
    )
    assert (found_first.resumes_at, found_first.replays, found_first.set_aside) == (3, True, 4)

    logs.put("commits/3", "v1\n{}")
    for plan in (None, b"anew"):  # before and after Spark has planned batch 4 anew
        if plan is not None:
            logs.files |= {"offsets/4": plan, "set-aside/4": planned}
        bring_back(logs)
        assert logs.files["offsets/4"] == planned
        assert names(logs)["set-aside"] == []
    then = recover(logs, JobRecord("job", 1, 3), 8, job="flights", setting=lambda _: None, modified_ms=lambda _: 0)
    assert (then.resumes_at, then.replays, then.set_aside) == (4, True, None)


def test_offsets_that_were_set_aside_are_dropped_once_their_batch_is_committed() -> None:
    logs = left(4, 4)
    logs.put("set-aside/4", "older")
    before = logs.files["offsets/4"]
    bring_back(logs)
    assert logs.files["offsets/4"] == before
    assert names(logs)["set-aside"] == []


def test_it_goes_back_no_further_than_is_safe() -> None:
    for logs, broken, published in ((logged(3, 3), (2, 3), 3), (logged(4, 3), (2, 3), 3), (logged(4, 3), (3,), -1)):
        before = dict(logs.files)
        with pytest.raises(CheckpointDamaged, match="no whole snapshot is safe to go back to"):
            went_back(logs, found(*broken, newest=3), published)
        assert logs.files == before


def test_the_logs_that_are_to_stay_have_to_be_whole() -> None:
    class Unreadable(Logs):
        def read(self, path: str) -> bytes | None:
            if path == "sources/0/1":
                raise WrongCheckpoint(f"{path} cannot be read")
            return super().read(path)

    logs = Unreadable()
    logs.files = logged(3, 3).files
    with pytest.raises(CheckpointDamaged, match="cannot be read either: sources/0/1"):
        went_back(logs, found(3, newest=3), 3)


def test_who_is_told_to_goes_on_or_refuses() -> None:
    logs, report = logged(3, 3), found(3, newest=3)
    nobody: Any = None
    assert fall_back(report, logs, nobody, 3, IfDamaged.GO_ON, "flights") is None
    with pytest.raises(CheckpointDamaged, match=r"it would go back to batch 2.* restore flights @\d+\.") as refused:
        fall_back(report, logs, nobody, 3, IfDamaged.REFUSE, "flights")
    assert refused.value.damaged == ("checkpoint/state/0/0/1.delta",)
