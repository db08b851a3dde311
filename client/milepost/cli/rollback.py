"""Rolls a job's files back to a snapshot, unless its job record has later batches, with which the job could never
continue.
"""

from __future__ import annotations

from milepost.errors import MilepostError, NoSafeCheckpoint, NotExist
from milepost.job_record import JOB, JobRecord, decode
from milepost.store import StateHandleStore
from milepost.types import KeptSnapshots
from milepost.wire import Code

_CHECKPOINT = "checkpoint"


def snapshot_of(kept: KeptSnapshots, wanted: str) -> tuple[int, str]:
    """Return the revision and the name of a snapshot, given as the name of a savepoint or as a revision, with or
    without ``@``.

    A savepoint's name takes precedence over a revision, as in ``.snapshot``. Raises `NotExist`.
    """
    for savepoint in kept.savepoints:
        if savepoint.name == wanted:
            return savepoint.snapshot.revision, savepoint.name
    for snapshot in (*kept.snapshots, *(savepoint.snapshot for savepoint in kept.savepoints), *kept.passed_over):
        if wanted in (snapshot.name, str(snapshot.revision)):
            return snapshot.revision, snapshot.name
    detail = f"the job has no savepoint and no snapshot {wanted!r}; milepost files snapshots lists what it has"
    raise NotExist(Code.NOT_EXIST, detail)


def roll_back(store: StateHandleStore, revision: int, snapshot: str) -> str:
    """Roll the files back to a snapshot; return the name of the snapshot that keeps the files from before.

    Call this under the epoch. Raises the errors of `require_safe`.
    """
    require_safe(store, snapshot)
    store.files.roll_back(revision)
    return store.files.snapshots().passed_over[-1].name


def require_safe(store: StateHandleStore, snapshot: str) -> None:
    """Check whether a driver could continue from a snapshot. Nothing is changed.

    Raises `NoSafeCheckpoint` if the job record has later batches or later managed state, and the errors of reading the
    record.
    """
    record = _record(store)
    if record is not None:
        root = f".snapshot/{snapshot}"
        logged = max(_newest(store, f"{root}/{_CHECKPOINT}/{log}") for log in ("offsets", "set-aside"))
        if logged < record.begun:
            raise _refused(
                store,
                snapshot,
                f"has the offsets of batch {logged}, and the job has begun batch {record.begun} and published batch "
                f"{record.published} by job.files or job.exactlyOnce",
            )
        if lost := _lost_states(store, record, root):
            raise _refused(store, snapshot, f"lacks what the job has published of its managed states {lost}")


def _refused(store: StateHandleStore, snapshot: str, why: str) -> NoSafeCheckpoint:
    return NoSafeCheckpoint(
        f"snapshot {snapshot} of {store.name} {why}: no driver would go on from there, since input that was "
        "published would be divided into batches anew, so nothing was rolled back. Roll back to a later snapshot, if "
        "milepost files snapshots shows one. Or begin a job under another name, with another output and its input from "
        f"the beginning; {store.name} stays as it is"
    )


def _record(store: StateHandleStore) -> JobRecord | None:
    try:
        return decode(store.read(JOB))
    except NotExist:
        return None


def _newest(store: StateHandleStore, directory: str) -> int:
    """Return the newest batch with a file in a directory; -1 if there is none."""
    names = (path.rpartition("/")[2] for path in _paths(store, directory))
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _paths(store: StateHandleStore, directory: str) -> list[str]:
    try:
        return [file.path for file in store.files.list(directory)]
    except NotExist:
        return []


def _lost_states(store: StateHandleStore, record: JobRecord, root: str) -> list[str]:
    """Return the names of the managed states whose published commits are in the tree but not in the snapshot."""
    if not record.state:
        return []
    try:
        from milepost.state.processors.snapshot import Snapshot
        from milepost.state.store.files.tree import DEFAULT_DIRECTORY
    except ModuleNotFoundError as missing:
        raise MilepostError(
            f"{store.name} has managed state, and looking at it takes {missing.name}: pip install 'milepost[state]'"
        ) from missing
    found = [Snapshot.from_json(name, document) for name, document in record.state.items()]
    directory = f"{DEFAULT_DIRECTORY}/{record.job}"
    return [
        one.name
        for one in found
        if any(
            _is_file(store, f"{directory}/{path}") and not _is_file(store, f"{root}/{directory}/{path}")
            for path in one.commits
        )
    ]


def _is_file(store: StateHandleStore, path: str) -> bool:
    try:
        store.files.get(path)
    except NotExist:
        return False
    return True
