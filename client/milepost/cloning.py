"""Clones a job: begins another job with the files, the job record and the managed state of a snapshot, in one commit.

The clone goes on from the snapshot's batch like the original would, but publishes elsewhere: its own output begins
empty. The original is only read.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace

from milepost.errors import AlreadyExists, NoSafeCheckpoint, NotEmpty, NotExist, WrongCheckpoint
from milepost.job_record import JOB, RECORD_FILE, JobRecord
from milepost.restoring import (
    files_of_states,
    handle_and_record,
    intact_snapshot,
    is_file,
    record_then,
    require_safe,
)
from milepost.store import StateHandleStore
from milepost.types import Snapshot, StateAddition
from milepost.wire import Code


@dataclass(frozen=True)
class JobClone:
    """A clone ``job`` of the snapshot ``snapshot`` of the job ``source``, planned or made.

    ``batch`` is the batch of the snapshot, ``published`` the last batch that counts as published in the clone, -1 if
    none was published through Milepost. ``query``, ``input``, ``state``, ``output`` and ``sink`` say in words what
    becomes of them. ``files`` files with ``bytes`` bytes were copied; both are None while the clone is only planned.
    """

    job: str
    source: str
    snapshot: str
    revision: int
    batch: int
    published: int
    query: str
    input: str
    state: str
    output: str
    sink: str
    files: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class _Prepared:
    """A plan, and what the clone begins with: its record, None if the original has none, and the files that have other
    bytes than the original.
    """

    plan: JobClone
    record: JobRecord | None
    written: dict[str, bytes]


def planned(
    store: StateHandleStore,
    source: StateHandleStore,
    snapshot: str,
    *,
    new_query_id: bool = False,
    timeout: float | None = None,
) -> JobClone:
    """Return what a clone of ``source`` into the empty ``store`` would do; change nothing. Raises the errors of
    `clone`.
    """
    return _prepare(store, source, snapshot, new_query_id, timeout).plan


def clone(
    store: StateHandleStore,
    source: StateHandleStore,
    snapshot: str,
    *,
    new_query_id: bool = False,
    timeout: float | None = None,
) -> JobClone:
    """Begin the job of ``store`` as a clone of ``source`` at ``snapshot``, the name or the revision of a kept snapshot.

    ``store`` must hold the epoch, and have neither files nor a job record. The files, the job record and the managed
    state come in one commit. The clone has an identity of its own, and so another ``context.txnAppId``. Spark's id of
    the query stays, unless ``new_query_id``. ``timeout`` bounds the check of the snapshot, and the copying.

    Raises `NotExist` if there is no such snapshot, `NotEmpty` and `AlreadyExists` if the store is not empty,
    `CheckpointDamaged` if bytes of the snapshot are missing, and `NoSafeCheckpoint` if no driver could continue from
    it: the job is in the middle of a rescale, the snapshot was taken before the record was kept among the files, or
    managed state is stored elsewhere. Raises `Fenced` and the other errors of a write: then the store is empty still,
    unless the error is `OutcomeUnknown`.
    """
    prepared = _prepare(store, source, snapshot, new_query_id, timeout)
    written, add = prepared.written, None
    if prepared.record is not None:
        state = replace(prepared.record, epoch=store.epoch or 1).encode()
        add = StateAddition(JOB, state, prepared.record.labels)
        if is_file(source, f".snapshot/{prepared.plan.snapshot}/{RECORD_FILE}"):
            written = {**written, RECORD_FILE: state}
    copied = store.files.clone(source.name, prepared.plan.snapshot, files=written, add=add, timeout=timeout)
    return replace(prepared.plan, files=copied.files, bytes=copied.bytes)


def _prepare(
    store: StateHandleStore, source: StateHandleStore, wanted: str, new_query_id: bool, timeout: float | None
) -> _Prepared:
    require_no_files(store)
    if store.exists(JOB):
        raise AlreadyExists(Code.ALREADY_EXISTS, f"the job {store.name} has a record: a clone begins a job")
    snapshot, name, _ = intact_snapshot(source, wanted, timeout)
    record = _record(source, name)
    written = _with_new_id(source, name, snapshot) if new_query_id else {}
    plan = JobClone(
        job=store.name,
        source=source.name,
        snapshot=name,
        revision=snapshot.revision,
        batch=snapshot.batch,
        published=-1 if record is None else record.published,
        query="has a new id" if new_query_id else f"keeps the id that it has in {source.name}",
        input=f"the next batch is {snapshot.batch + 1}, from the offsets after batch {snapshot.batch}",
        state=_state(record, snapshot.batch),
        output=_output(record),
        sink="give the clone another sink, or another table: its batches have the numbers that the original's have",
    )
    return _Prepared(plan, record, written)


def _record(source: StateHandleStore, name: str) -> JobRecord | None:
    """Return the first record of a clone of the snapshot ``name``; None if the original has no record."""
    _, now = handle_and_record(source)
    if now is None:
        return None
    if now.rescales_at is not None:
        raise NoSafeCheckpoint(
            f"{source.name} is in the middle of a rescale, as batch {now.rescales_at}: start the job once more, which "
            "ends it, and then clone"
        )
    if now.published < 0 and now.state is None:
        return now.cloned(source.name, name, uuid.uuid4().hex, now.epoch)
    then = record_then(source, name)
    require_safe(source, name, then)
    root = f".snapshot/{name}"
    elsewhere = [
        state
        for state, paths in files_of_states(source.name, then).items()
        if not all(is_file(source, f"{root}/{path}") for path in paths)
    ]
    if elsewhere:
        raise NoSafeCheckpoint(
            f"the files of {source.name} lack what it has published of its managed states {', '.join(elsewhere)}: they "
            "are stored elsewhere, and a clone would write into the same directory"
        )
    return then.cloned(source.name, name, uuid.uuid4().hex, then.epoch)


def require_no_files(store: StateHandleStore) -> None:
    """Raise `NotEmpty` if a job has files."""
    try:
        found = next(store.files.list(), None)
    except NotExist:
        return
    if found is not None:
        raise NotEmpty(Code.NOT_EMPTY, f"the job {store.name} has files: {found.path!r}")


def _with_new_id(source: StateHandleStore, name: str, snapshot: Snapshot) -> dict[str, bytes]:
    """Return, by its path, Spark's file with the id of the query, with another id. Raises `WrongCheckpoint`."""
    path = f"{snapshot.directory}/metadata".lstrip("/")
    try:
        document = json.loads(source.files.read(f".snapshot/{name}/{path}"))
        document["id"] = str(uuid.uuid4())
    except (NotExist, ValueError, TypeError, RecursionError) as error:
        raise WrongCheckpoint(f"{path} of {source.name} does not say which id the query has: {error}") from error
    return {path: json.dumps(document, separators=(",", ":")).encode()}


def _state(record: JobRecord | None, batch: int) -> str:
    managed = sorted(record.state) if record is not None and record.state else []
    beside = f", and so are the managed states {', '.join(managed)}" if managed else ""
    return f"the state of Spark's operators is that of batch {batch}{beside}"


def _output(record: JobRecord | None) -> str:
    if record is None or record.origin is None or not record.origin.outputs:
        return "begins empty"
    return (
        f"begins empty, with batch {record.first_output}; job.files refuses the directories of {record.origin.source}: "
        f"{', '.join(record.origin.outputs)}"
    )
