"""Compares two jobs, or two snapshots: their batches, offsets, settings, job records, schemas and files of state.

It only reads. What two copies must have in common compares as equal: the name of a job in the paths that Spark stores,
and the name of the directory of managed states.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from milepost.errors import NotExist, WrongCheckpoint
from milepost.files import JobFiles
from milepost.job_record import JobRecord, published_by_files
from milepost.restoring import handle_and_record, newest_batch, record_then, snapshot_of
from milepost.store import StateHandleStore
from milepost.wire import is_state_metadata

_CHECKPOINT = "checkpoint"
_MANAGED = "_milepost/state"
"""The directory of managed states among the files of a job."""
_SCHEMAS = ("/_metadata/", "/_stateSchema/")
"""What the paths of files contain in which Spark describes the state of an operator."""

Facts = dict[tuple[str, str], str]
"""What is compared: a text for each part of a job, and the name of one thing in that part."""


@dataclass(frozen=True)
class Difference:
    """One thing that differs, ``name`` in the ``part`` of a job; None on a side that lacks it.

    ``part`` is ``batch``, ``query``, ``record``, ``offsets``, ``settings``, ``schema``, ``state`` or ``file``.
    """

    part: str
    name: str
    left: str | None
    right: str | None


def difference(
    left: StateHandleStore,
    right: StateHandleStore,
    snapshots: tuple[str | None, str | None] = (None, None),
    *,
    files: bool = True,
) -> list[Difference]:
    """Return what differs between two jobs, in the order of the parts.

    ``snapshots`` has the name or the revision of a kept snapshot for each side; None compares what the job has now.
    Without ``files``, the files of the state are not listed, which takes a request for each directory. Raises
    `NotExist` if there is no such snapshot, `WrongCheckpoint` if Spark's log cannot be read, and the errors of reading
    the job record.
    """
    of_left, of_right = (
        _facts(store, snapshot, files) for store, snapshot in zip((left, right), snapshots, strict=True)
    )
    keys = dict.fromkeys((*of_left, *of_right))
    order = {part: place for place, part in enumerate(dict.fromkeys(part for part, _ in keys))}
    return [
        Difference(*key, of_left.get(key), of_right.get(key))
        for key in sorted(keys, key=lambda key: (order[key[0]], key[1]))
        if of_left.get(key) != of_right.get(key)
    ]


def _facts(store: StateHandleStore, snapshot: str | None, files: bool) -> Facts:
    root, record = "", None
    if snapshot is None:
        _, record = handle_and_record(store)
    else:
        _, name = snapshot_of(store.files.snapshots(), snapshot)
        root = f".snapshot/{name}/"
        _, now = handle_and_record(store)
        record = now if now is None or now.published < 0 else record_then(store, name)
    found: Facts = {}
    logged = newest_batch(store.files, f"{root}{_CHECKPOINT}/offsets")
    committed = newest_batch(store.files, f"{root}{_CHECKPOINT}/commits")
    found["batch", "committed"], found["batch", "logged"] = str(committed), str(logged)
    found |= _of_record(record)
    if logged >= 0:
        found |= _of_log(store, f"{root}{_CHECKPOINT}", logged)
    if files:
        found |= _of_files(store, root, record)
    return found


def _of_record(record: JobRecord | None) -> Facts:
    if record is None:
        return {}
    found: Facts = {("record", "published"): str(record.published)}
    if published_by_files(record.manifest):
        found["record", "output"] = str(record.manifest["output"])
    if record.origin is not None:
        found["record", "clone of"] = f"{record.origin.source} at {record.origin.snapshot}"
    for name, state in sorted((record.state or {}).items()):
        found["state", name] = f"version {state.get('version')}, batch {state.get('batch')}"
        for variable, schema in sorted(state.get("variables", {}).items()):
            found["schema", f"{name}.{variable}"] = _json(schema)
    return found


def _of_log(store: StateHandleStore, checkpoint: str, batch: int) -> Facts:
    """Return what Spark has logged about a batch, and the id of the query."""
    path = f"{checkpoint}/offsets/{batch}"
    try:
        version, settings, *offsets = store.files.read(path).decode().splitlines()
        document = json.loads(settings)
        conf, watermark = dict(document["conf"]), document["batchWatermarkMs"]
    except (ValueError, KeyError, TypeError) as error:
        raise WrongCheckpoint(f"{path} of {store.name} is not an offset log of Spark's: {error!r}") from error
    found: Facts = {("settings", key): str(value) for key, value in sorted(conf.items())}
    found["batch", "watermark in ms"] = str(watermark)
    for number, line in enumerate(offsets):
        source, offset = (str(number), line) if version == "v1" else (line.partition(":")[0], line.partition(":")[2])
        found["offsets", f"source {source}"] = offset
    try:
        found["query", "metadata"] = store.files.read(f"{checkpoint}/metadata").decode(errors="replace").strip()
    except NotExist:
        return found
    return found


def _of_files(store: StateHandleStore, root: str, record: JobRecord | None) -> Facts:
    """Return the files of the state of Spark's operators and of managed states, by their paths."""
    found: Facts = {}
    managed = "" if record is None else f"{_MANAGED}/{record.states}/"
    for directory in (f"{_CHECKPOINT}/state", managed.rstrip("/")):
        for path, size, sha256 in _walk(store.files, f"{root}{directory}") if directory else ():
            name, digest = path.removeprefix(root), sha256 or ""
            if managed:
                name = name.replace(managed, f"{_MANAGED}/")
            if is_state_metadata(name, size):
                content = store.files.read(path).replace(f"/jobs/{store.name}/".encode(), b"/jobs/JOB/")
                size, digest = len(content), hashlib.sha256(content).hexdigest()
            part = "schema" if any(each in name for each in _SCHEMAS) else "file"
            found[part, name] = f"{size} bytes, sha256 {digest[:16]}"
    return found


def _walk(files: JobFiles, directory: str) -> Iterator[tuple[str, int, str | None]]:
    """Yield all files below a directory, each with its size and its digest; none if the directory does not exist."""
    try:
        entries = [*files.list(directory)]
    except NotExist:
        return
    for entry in entries:
        if entry.directory:
            yield from _walk(files, f"{directory}/{entry.path.rpartition('/')[2]}")
        else:
            yield f"{directory}/{entry.path.rpartition('/')[2]}", entry.size, entry.sha256


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
