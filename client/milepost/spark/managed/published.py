"""The managed state of a job between batches, on the driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost.errors import NoSafeCheckpoint, UnsafeQuery, WrongCheckpoint
from milepost.spark.pointer import JobPointer
from milepost.spark.tree import CheckpointTree

if TYPE_CHECKING:
    from milepost.state.processors.snapshot import Snapshot
    from milepost.state.store.files.contract import StateFiles
    from milepost.state.store.files.tree import TreeFiles

STATE_BYTES = 256 * 1024
"""The most bytes of the JSON of all snapshots in the job record."""


@dataclass(frozen=True)
class LoggedTimes:
    """The times that Spark's log has for a batch, in milliseconds since 1970: when it began, its watermark, and the
    watermark of the batch before, which decides which rows are late.
    """

    began: int
    watermark: int
    late: int


class ManagedState:
    """The states of a job by name: the published ones, and those that the batch in flight has staged.

    A state is a snapshot as a JSON document, which `milepost.state.processors.snapshot` makes and reads. Staged states
    count once the batch is published; one compare-and-set publishes them together with the batch's output.
    """

    def __init__(self, pointer: JobPointer, tree: CheckpointTree, access: Mapping[str, Any]) -> None:
        """Make the states of a job; ``access`` has the arguments of a `milepost.state.store.TreeFiles` of the job under
        this driver's epoch.
        """
        self._access = access
        self._pointer = pointer
        self._tree = tree
        self._batch: int | None = None
        self._staged: dict[str, dict[str, Any]] = {}
        self._found: set[str] = set()
        self._tree_files: TreeFiles | None = None

    def tree_files(self) -> TreeFiles:
        """Return the files of the job's tree under this driver's epoch, the same object for all batches."""
        from milepost.state.store.files.tree import TreeFiles  # jobs without managed state need no pyarrow

        if self._tree_files is None:
            self._tree_files = TreeFiles(**self._access)
        return self._tree_files

    def close(self) -> None:
        """Close the connections to the job's tree. The states cannot be processed any more."""
        if self._tree_files is not None:
            self._tree_files.close()

    def enter(self, batch: int) -> None:
        """Make ``batch`` the batch in flight, with no staged state."""
        self._batch, self._staged = batch, {}

    def leave(self) -> None:
        """Forget the staged states: the batch has ended, done or failed."""
        self._batch, self._staged = None, {}

    @property
    def batch(self) -> int:
        """The batch in flight. Raises `UnsafeQuery` if there is none."""
        if self._batch is None:
            raise UnsafeQuery(
                "state is processed within a batch only: call stateful in the function that was given to "
                "job.exactlyOnce, or that was given to job.files as its transform"
            )
        return self._batch

    @property
    def epoch(self) -> int:
        """The epoch of this driver, under which it writes states."""
        return self._pointer.store.epoch

    @property
    def directory(self) -> str:
        """The name of the directory of the job's states in their storage: the identity of the job, or of the job of
        which it is a clone, whose states it has as copies of its own.
        """
        return self._pointer.record.states

    def published(self, name: str) -> dict[str, Any] | None:
        """Return the published snapshot from which the batch continues; None for a new state."""
        return (self._pointer.record.state or {}).get(name)

    def check_found(self, snapshot: Snapshot, files: StateFiles) -> None:
        """Raise `NoSafeCheckpoint` if the files of the state lack a commit of its published snapshot, for example after
        a manual rollback to a snapshot from before that commit. Each driver checks each state once.
        """
        if snapshot.name in self._found:
            return
        lost = snapshot.missing(files)
        if lost:
            raise NoSafeCheckpoint(
                f"the state {snapshot.name!r} was published with batch {snapshot.batch}, but its files lack what that "
                f"batch committed of the partitions {lost}: they were rolled back without the job record, deleted, or "
                "stateful was given another place; nothing is processed. Give it the place that it had; or let "
                "milepost jobs restore take job record, output and state back together, to a snapshot that milepost "
                f"files snapshots lists; or roll the files back to one of batch {snapshot.batch} or later, if one is "
                "left, or restore a backup of them; or begin the job under another name, with another output and its "
                "input from the beginning"
            )
        self._found.add(snapshot.name)

    def stage(self, name: str, snapshot: dict[str, Any]) -> None:
        """Stage the snapshot of the state ``name``, which is then published together with the batch. Raises the errors
        of `check_unstaged`.
        """
        self.check_unstaged(name)
        self._staged[name] = snapshot

    def check_unstaged(self, name: str) -> None:
        """Raise `UnsafeQuery` if the batch has processed this state already."""
        if name in self._staged:
            raise UnsafeQuery(f"the state {name!r} is processed twice in one batch: give each a name of its own")

    def staged(self) -> Mapping[str, Any] | None:
        """Return the snapshots to publish with the batch, by state: the staged ones, and the published ones of all
        states without a staged one. None if there are none; raises `UnsafeQuery` if their JSON is too large.
        """
        merged = {**(self._pointer.record.state or {}), **self._staged}
        size = len(json.dumps(merged))
        if size > STATE_BYTES:
            raise UnsafeQuery(
                f"the snapshots of the job's states take {size} bytes, the job record takes at most {STATE_BYTES}: "
                "let stateful keep fewer snapshots, since each change of the partitions among them takes its place, or "
                "use fewer partitions or states"
            )
        return merged or None

    def times(self) -> LoggedTimes:
        """Return the times of the batch in flight. Spark logged them before the batch began, so they are the same when
        another driver runs it again. Raises `WrongCheckpoint` if the log does not have them.
        """
        now, before = self._logged(self.batch), None
        if self.batch > 0:
            before = self._logged(self.batch - 1)
        watermark = int(now["batchWatermarkMs"])
        late = watermark if before is None else int(before["batchWatermarkMs"])
        return LoggedTimes(int(now["batchTimestampMs"]), watermark, late)

    def _logged(self, batch: int) -> dict[str, Any]:
        content = self._tree.read(f"offsets/{batch}")
        try:
            found = json.loads((content or b"").split(b"\n")[1])
            return {"batchWatermarkMs": found["batchWatermarkMs"], "batchTimestampMs": found["batchTimestampMs"]}
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise WrongCheckpoint(f"offsets/{batch} of the checkpoint does not tell the time of the batch") from error
