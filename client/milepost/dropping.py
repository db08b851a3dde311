"""Drops a job: its handles, its files, its snapshots and its managed state go in one commit.

What the job published stays where it is: the service does not know that place, and the readers of the output may not
know of the drop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from milepost.errors import Damaged, EpochHeld, NotExist, RecordUnreadable
from milepost.job_record import published_by_files
from milepost.job_types import JobInfo
from milepost.restoring import handle_and_record
from milepost.store import StateHandleStore
from milepost.wire import Code


@dataclass(frozen=True)
class JobDrop:
    """A drop of a job, planned or made.

    ``state`` is the state that the job had, ``batch`` the last batch that Spark committed, None without one, and
    ``epoch`` the epoch that the job had last. ``handles``, ``snapshots`` and ``savepoints`` are those that go.
    ``outputs`` are the directories into which `Job.files` published, whose files stay; None if the record of the job
    cannot be read. ``dropped`` says whether the drop is made.
    """

    job: str
    state: str
    batch: int | None
    epoch: int
    handles: int
    snapshots: int
    savepoints: tuple[str, ...]
    outputs: tuple[str, ...] | None
    dropped: bool = False


def planned(store: StateHandleStore, info: JobInfo) -> JobDrop:
    """Return what a drop of the job ``info``, whose store is ``store``, would do; change nothing.

    Raises `EpochHeld` if a driver leads the job, and `NotExist` if the store is that of no job: it never had an epoch,
    and a drop would be the first.
    """
    if not info.epoch.epoch and info.batch is None:
        detail = f"{info.job} is no job, since its store has no epoch and no snapshot; milepost rm removes its handles"
        raise NotExist(Code.NOT_EXIST, detail)
    if info.state in ("led", "stopping"):
        raise EpochHeld(
            Code.HELD,
            f"{info.epoch.holder or info.epoch.session} leads {info.job} under epoch {info.epoch.epoch}: stop that "
            "driver first",
        )
    kept = info.kept
    revisions = {each.revision for each in (*kept.snapshots, *kept.passed_over, *(s.snapshot for s in kept.savepoints))}
    return JobDrop(
        job=info.job,
        state=info.state,
        batch=None if info.batch is None else info.batch.batch,
        epoch=info.epoch.epoch,
        handles=info.handles,
        snapshots=len(revisions),
        savepoints=tuple(each.name for each in kept.savepoints),
        outputs=_outputs(store),
    )


def drop(store: StateHandleStore, plan: JobDrop) -> JobDrop:
    """Drop the job of ``plan``, whose store is ``store``, in one commit.

    ``store`` must hold the epoch, so no driver leads. The store keeps the number of its epoch, so that a late driver of
    the dropped job is fenced, and its history. A job that begins under the name later has a greater epoch. Raises
    `Fenced` and the other errors of a write: then nothing is changed, unless the error is `OutcomeUnknown`; repeat the
    drop then.
    """
    outputs = _outputs(store)
    gone = store.drop_job()
    return replace(plan, handles=gone.handles, snapshots=gone.snapshots, outputs=outputs, dropped=True)


def _outputs(store: StateHandleStore) -> tuple[str, ...] | None:
    try:
        _, record = handle_and_record(store)
    except (Damaged, RecordUnreadable):
        return None
    if record is None:
        return ()
    manifests = (record.manifest, *(each.manifest for each in record.abandoned))
    return tuple(dict.fromkeys(each["output"] for each in manifests if published_by_files(each)))
