"""Returns a job to a snapshot of its files: a rollback of the files alone, or a restore of the whole job.

A restore takes the files, the job record, the published output of `Job.files` and the managed state back together, in
one commit. This follows Flink's restore from a savepoint. A driver keeps a copy of the job record among the files, so a
snapshot has the record that belonged to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from milepost.errors import CheckpointDamaged, InvalidRequest, MilepostError, NoSafeCheckpoint, NotExist
from milepost.files import JobFiles
from milepost.job_record import JOB, RECORD_FILE, JobRecord, decode, published_by_files
from milepost.source_offsets import TopicOffsets, described, moved
from milepost.store import StateHandleStore
from milepost.types import Handle, KeptSnapshots, Snapshot, StateReplacement
from milepost.wire import Code

_CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class JobRestore:
    """A restore of a job to the snapshot ``snapshot`` of the batch ``batch`` of its query in ``directory``, planned or
    made.

    ``published`` is the last published batch after the restore, ``published_before`` the one before it; both are -1 if
    none was published through Milepost. ``source``, ``state``, ``output`` and ``sink`` say in words what becomes of
    them. ``undo`` is the snapshot to which a restore undoes this one; None while the restore is only planned.
    """

    job: str
    snapshot: str
    revision: int
    directory: str
    batch: int
    published: int
    published_before: int
    source: str
    state: str
    output: str
    sink: str
    undo: str | None = None


def planned(
    store: StateHandleStore, snapshot: str, *, offsets: TopicOffsets | None = None, timeout: float | None = None
) -> JobRestore:
    """Return what a restore of the job to ``snapshot``, the name or the revision of a kept snapshot, would do; change
    nothing.

    ``timeout`` bounds the check that the bytes of the snapshot exist. Raises the errors of `restore`.
    """
    plan, _, _ = _prepare(store, snapshot, timeout)
    return plan if offsets is None else _going_on_at(store, plan, offsets)[0]


def restore(
    store: StateHandleStore, snapshot: str, *, offsets: TopicOffsets | None = None, timeout: float | None = None
) -> JobRestore:
    """Restore a job to ``snapshot``, the name or the revision of a kept snapshot, in one commit.

    ``store`` must hold the epoch, so no driver leads. The later snapshots and the present state are kept as passed
    over, so another restore undoes this one. Output that counts no more stays until it expires.

    With ``offsets``, Spark then reads these topics of Kafka from there on, and not from after the snapshot's batch: for
    a topic that was deleted and made anew. That is a second commit. If it fails, the job is restored, and the call may
    be repeated.

    Raises `InvalidRequest` if the query does not read a topic of ``offsets``, `NotExist` if there is no such snapshot,
    `CheckpointDamaged` if bytes of it are missing, and `NoSafeCheckpoint` if no driver could continue from it: it was
    taken before the record was kept among the files, or output that it needs is expired. Raises `Fenced`,
    `VersionMismatch` and the other errors of a write: then nothing is changed, unless the error is `OutcomeUnknown`, or
    comes from the second commit.
    """
    plan, handle, record = _prepare(store, snapshot, timeout)
    log = None
    if offsets is not None:
        plan, log = _going_on_at(store, plan, offsets)
    if handle is None or record is None:
        store.files.roll_back(plan.revision)
    else:
        store.get_and_lock(JOB)
        # The rollback keeps what is there now as a snapshot, which must have the record that belongs to it.
        store.files.write(RECORD_FILE, store.read(JOB, handle.version))
        replacement = StateReplacement(JOB, handle.version, record.encode(), record.labels)
        store.files.roll_back(plan.revision, replace=replacement)
    if log is not None:
        store.files.write(_offset_log(plan), log)
    return replace(plan, undo=store.files.snapshots().passed_over[-1].name)


def _going_on_at(store: StateHandleStore, plan: JobRestore, offsets: TopicOffsets) -> tuple[JobRestore, bytes]:
    """Return the plan of a restore after which the source goes on at ``offsets``, and the file of Spark's offset log
    that says so.
    """
    log = moved(store.files.read(f".snapshot/{plan.snapshot}/{_offset_log(plan)}"), offsets)
    return replace(plan, source=f"the next batch is {plan.batch + 1}, from {described(offsets)} on"), log


def _offset_log(plan: JobRestore) -> str:
    return f"{plan.directory}/offsets/{plan.batch}"


def chosen(
    kept: KeptSnapshots, snapshot: str | None = None, batch: int | None = None, as_of: datetime | None = None
) -> str:
    """Return the name of the snapshot that the user names in one of three ways, of the newest if in none. Raises
    `NotExist`, and the errors of `newest_of_batch`.
    """
    if batch is not None:
        return newest_of_batch(kept, batch)
    if as_of is not None:
        return newest_as_of(kept, as_of)
    return newest(kept) if snapshot is None else snapshot


def newest_of_batch(kept: KeptSnapshots, batch: int) -> str:
    """Return the name of the newest snapshot of ``batch``, a batch of the job's checkpoint, that counts: one that a
    restore has passed over has to be named by its revision.

    Raises `NotExist`, and `InvalidRequest` if several queries of a job under ``milepost run`` have such a batch.
    """
    found = _selected(kept, lambda snapshot: snapshot.batch == batch, f"of batch {batch}")
    queries = sorted({snapshot.directory for snapshot in found})
    if len(queries) > 1:
        detail = f"batch {batch} is one of each of {', '.join(queries)}: name the snapshot instead"
        raise InvalidRequest(Code.INVALID_REQUEST, detail)
    return _newest_name(found)


def newest_as_of(kept: KeptSnapshots, time: datetime) -> str:
    """Return the name of the newest snapshot that counts and was taken at ``time`` or before: one that a restore has
    passed over has to be named by its revision. Raises `NotExist`.
    """
    found = _selected(
        kept,
        lambda snapshot: snapshot.taken is not None and snapshot.taken <= time,
        f"from {time.isoformat()} or before",
    )
    return _newest_name(found)


def newest(kept: KeptSnapshots) -> str:
    """Return the name of the newest snapshot of the job's checkpoint. Raises `NotExist`."""
    return _newest_name(_selected(kept, lambda _: True, "of its checkpoint"))


def snapshot_of(kept: KeptSnapshots, wanted: str) -> tuple[int, str]:
    """Return the revision and the name of the snapshot that the user names with ``wanted``.

    ``wanted`` is the name of a savepoint, or the revision of a snapshot, with or without ``@``. A savepoint's name
    takes precedence over a revision. Raises `NotExist`.
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
    """Roll the files of a job back to the snapshot ``snapshot`` at ``revision``; return the name of the snapshot that
    keeps the previous files.

    ``store`` must hold the epoch. Raises the errors of `require_safe` if no driver could continue from the snapshot.
    """
    require_safe(store, snapshot)
    store.files.roll_back(revision)
    return store.files.snapshots().passed_over[-1].name


def require_safe(store: StateHandleStore, snapshot: str, record: JobRecord | None = None) -> None:
    """Raise an error if no driver could continue from a snapshot with this job record, or if it is None, with the one
    that the job has now; change nothing.

    Raises `NoSafeCheckpoint` if the job record has later batches or later managed state than the snapshot, and the
    errors of reading the record.
    """
    if record is None:
        _, record = handle_and_record(store)
    if record is not None:
        root = f".snapshot/{snapshot}"
        logged = max(newest_batch(store.files, f"{root}/{_CHECKPOINT}/{log}") for log in ("offsets", "set-aside"))
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
        "milepost files snapshots shows one; or let milepost jobs restore take record, output and managed state along. "
        f"Or begin a job under another name, with another output and its input from the beginning; {store.name} stays "
        "as it is"
    )


def newest_batch(files: JobFiles, directory: str) -> int:
    """Return the highest batch number in ``directory``, whose files are named after batches; -1 if there is none."""
    return max((int(name) for name in names_in(files, directory) if name.isdigit()), default=-1)


def names_in(files: JobFiles, directory: str) -> list[str]:
    """Return the names in a directory of a job; none if it does not exist."""
    try:
        return [file.path.rpartition("/")[2] for file in files.list(directory)]
    except NotExist:
        return []


def _lost_states(store: StateHandleStore, record: JobRecord, root: str) -> list[str]:
    """Return the names of the managed states that the snapshot at ``root`` would lose: it lacks files to which the
    job's published record refers.
    """
    return [
        name
        for name, paths in files_of_states(store.name, record).items()
        if any(is_file(store, path) and not is_file(store, f"{root}/{path}") for path in paths)
    ]


def files_of_states(job: str, record: JobRecord) -> dict[str, list[str]]:
    """Return, for each managed state in the record of the job ``job``, the paths of the files to which the record
    refers, if the state is among the files of the job.
    """
    if not record.state:
        return {}
    try:
        from milepost.state.processors.snapshot import Snapshot
        from milepost.state.store.files.tree import DEFAULT_DIRECTORY
    except ModuleNotFoundError as missing:
        raise MilepostError(
            f"{job} has managed state, and looking at it takes {missing.name}: pip install 'milepost[state]'"
        ) from missing
    found = [Snapshot.from_json(name, document) for name, document in record.state.items()]
    directory = f"{DEFAULT_DIRECTORY}/{record.states}"
    return {one.name: [f"{directory}/{path}" for path in one.commits] for one in found}


def is_file(store: StateHandleStore, path: str) -> bool:
    """Return whether the job has a file at ``path``."""
    try:
        store.files.get(path)
    except NotExist:
        return False
    return True


def _selected(kept: KeptSnapshots, wanted: Callable[[Snapshot], bool], described: str) -> list[Snapshot]:
    """Return the snapshots, at least one, that ``wanted`` selects and no rollback passed over. A job has snapshots of
    its checkpoint; under ``milepost run``, of each of its queries. Raises `NotExist`.
    """
    snapshots = [*kept.snapshots, *(savepoint.snapshot for savepoint in kept.savepoints)]
    passed_over = {snapshot.revision for snapshot in kept.passed_over}
    of_checkpoint = [snapshot for snapshot in snapshots if snapshot.directory == _CHECKPOINT]
    found = [
        snapshot for snapshot in of_checkpoint or snapshots if snapshot.revision not in passed_over and wanted(snapshot)
    ]
    if not found:
        hint = "milepost files snapshots lists what it has" if snapshots else "milepost jobs ls lists the jobs"
        if over := [snapshot.name for snapshot in kept.passed_over if wanted(snapshot)]:
            hint = f"a restore has passed over {', '.join(over)}: name the one that you want"
        detail = f"the job keeps no snapshot {described} that counts; {hint}"
        raise NotExist(Code.NOT_EXIST, detail)
    return found


def _newest_name(snapshots: list[Snapshot]) -> str:
    return max(snapshots, key=lambda snapshot: snapshot.revision).name


def _prepare(
    store: StateHandleStore, wanted: str, timeout: float | None
) -> tuple[JobRestore, Handle | None, JobRecord | None]:
    """Plan a restore; return the plan, the handle of the job record, and the record after the restore.

    Both are None if only the files go back: the job has no record, or has published nothing through Milepost.
    """
    snapshot, name, kept = intact_snapshot(store, wanted, timeout)
    handle, now = handle_and_record(store)
    record = None
    if now is None or (now.published < 0 and now.state is None):
        handle = None
    else:
        then = record_then(store, name)
        require_safe(store, name, then)
        record = now.restoring(then, store.epoch or now.epoch + 1)
    plan = JobRestore(
        job=store.name,
        snapshot=name,
        revision=snapshot.revision,
        directory=snapshot.directory,
        batch=snapshot.batch,
        published=-1 if record is None else record.published,
        published_before=-1 if now is None else now.published,
        source=f"the next batch is {snapshot.batch + 1}, from the offsets after batch {snapshot.batch}",
        state=_state(record, snapshot.batch),
        output=_output(now, record),
        sink=_sink(now, record, snapshot, kept),
    )
    return plan, handle, record


def intact_snapshot(store: StateHandleStore, wanted: str, timeout: float | None) -> tuple[Snapshot, str, KeptSnapshots]:
    """Return the kept snapshot that the user names with ``wanted``, its name, and all that are kept, after checking
    within ``timeout`` that its bytes exist. Raises `NotExist` and `CheckpointDamaged`.
    """
    found = store.files.verify(timeout=timeout)
    revision, name = snapshot_of(found.kept, wanted)
    every = (
        *found.kept.snapshots,
        *(savepoint.snapshot for savepoint in found.kept.savepoints),
        *found.kept.passed_over,
    )
    snapshot = next(each for each in every if each.revision == revision)
    if not snapshot.intact:
        raise CheckpointDamaged(
            f"bytes of the snapshot {name} of {store.name} are missing, so nothing was changed: name another snapshot; "
            "milepost files verify lists what is missing",
            [file.path for file in found.damaged],
        )
    return snapshot, name, found.kept


def record_then(store: StateHandleStore, name: str) -> JobRecord:
    """Return the job record that belongs to the snapshot ``name`` of a job. Raises `NoSafeCheckpoint` if it has none,
    or was taken in the middle of a rescale.
    """
    try:
        then = decode(store.files.read(f".snapshot/{name}/{RECORD_FILE}"))
    except NotExist as error:
        raise NoSafeCheckpoint(
            f"snapshot {name} of {store.name} has no job record, since an older release took it: only a snapshot that "
            "a driver of this release took can be restored or cloned; milepost files roll-back goes back as far as the "
            "present record allows"
        ) from error
    if then.rescales_at is None:
        return then
    committed = newest_batch(store.files, f".snapshot/{name}/{_CHECKPOINT}/commits")
    if committed < then.rescales_at:
        raise NoSafeCheckpoint(
            f"snapshot {name} of {store.name} was taken in the middle of a rescale, whose state is not whole: name a "
            f"snapshot of batch {committed} that was taken before it"
        )
    return then.rescaled(committed, then.epoch)


def handle_and_record(store: StateHandleStore) -> tuple[Handle | None, JobRecord | None]:
    """Return the handle of the job record and the record; None for both if the job has none. Raises the errors of
    reading the record.
    """
    try:
        handle = store.get(JOB)
        return handle, decode(store.read(JOB, handle.version))
    except NotExist:
        return None, None


def _state(record: JobRecord | None, batch: int) -> str:
    managed = sorted(record.state) if record is not None and record.state else []
    beside = f", and so are the managed states {', '.join(managed)}" if managed else ""
    return f"the state of Spark's operators is that of batch {batch}{beside}"


def _output(now: JobRecord | None, record: JobRecord | None) -> str:
    if now is None or record is None or not published_by_files(now.manifest):
        return "job.files has published nothing"
    if now.published <= record.published:
        return f"job.files has published up to batch {record.published}"
    return (
        f"readers find what job.files published up to batch {record.published}; the files of batches "
        f"{record.published + 1} to {now.published} count no more, and stay until these batches expire"
    )


def _sink(now: JobRecord | None, record: JobRecord | None, target: Snapshot, kept: KeptSnapshots) -> str:
    if now is not None and record is not None and published_by_files(now.manifest):
        return "there is no other sink"
    keeps = "the job's own sink keeps what it got"
    if any(target.revision == snapshot.revision for snapshot in kept.passed_over):
        return f"{keeps}, also of batches that count no more after this restore: take those back there"
    later = [each for each in kept.snapshots if each.directory == target.directory and each.batch > target.batch]
    if kept.snapshots and not later:
        return f"{keeps}, and gets none of it again"
    return f"{keeps} after batch {target.batch}, and gets these batches again: take it back there"
