"""The loaded versions of a state store. This module loads a version into an engine, starting from another loaded
version, from a snapshot, or from an empty engine; and it keeps loaded versions that are in use or may be needed again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from milepost.state.errors import FileMissing, StateDamaged, VersionNotFound
from milepost.state.store.engines.engine import Engine
from milepost.state.store.format.files import OpenedFile
from milepost.state.store.format.heads import Commit, DeltaHead, Run, RunHead, SnapshotHead
from milepost.state.store.format.names import Kind, StateFileName, parse_name
from milepost.state.store.history import History, Listing
from milepost.state.store.rows import PREFIX_BYTES, Families, Op, Row, after_prefix, outcome, prefix_of

_log = logging.getLogger(__name__)
_CHUNK = 1024


@dataclass
class Loaded:
    """An engine, and the version of a state store that the engine holds. ``commit`` is None for version 0. ``broken``
    means that the content of the engine is not that of any version.
    """

    engine: Engine
    commit: Commit | None
    families: Families
    keys: int = 0
    broken: bool = False

    @property
    def version(self) -> int:
        """The number of the loaded version; 0 for the empty version."""
        return self.commit[0] if self.commit else 0


@dataclass(frozen=True)
class Plan:
    """How to load a commit of a state store: start from the ``loaded`` version, from the ``snapshot``, or from an empty
    engine if both are None; then apply the commits ``deltas``, oldest first.
    """

    loaded: Loaded | None
    snapshot: SnapshotHead | None
    deltas: Sequence[Commit]


def plan(
    history: History,
    listing: Listing,
    target: Commit,
    take: Callable[[Commit], Loaded | None],
    snapshot_version: int | None = None,
) -> Plan:
    """Make the plan that loads the commit ``target``, and that must apply as few other commits as possible. ``take``
    returns the loaded version of a commit, or None.

    With ``snapshot_version``, the plan starts from the snapshot of that version; without such a snapshot this raises
    `VersionNotFound`. Also raises `VersionNotFound` if a necessary commit is missing, and `StateDamaged`.
    """
    deltas: list[Commit] = []
    damaged: StateDamaged | None = None
    try:
        for commit in history.lineage(target):
            if snapshot_version is None and (loaded := take(commit)) is not None:
                return Plan(loaded, None, deltas[::-1])
            for name in listing.snapshots.get(commit, ()) if snapshot_version in (None, commit[0]) else ():
                try:
                    return Plan(None, _whole(history, listing, name), deltas[::-1])
                except FileMissing:
                    continue  # removed meanwhile, because a newer snapshot replaces it
                except StateDamaged as error:
                    damaged = damaged or error
                    _log.warning("%s; loading version %d from an older snapshot", error, target[0])
            if commit[1] not in listing.commits.get(commit[0], ()):
                raise VersionNotFound(f"version {commit[0]}, on the way to version {target[0]}, is no longer there")
            deltas.append(commit)
    except VersionNotFound:
        if damaged is not None:
            raise damaged from None
        raise
    if snapshot_version:
        raise VersionNotFound(f"there is no snapshot of version {snapshot_version} on the way to version {target[0]}")
    return Plan(None, None, deltas[::-1])


def _whole(history: History, listing: Listing, name: StateFileName) -> SnapshotHead:
    head = history.snapshot(name)
    missing = listing.lacks(head)
    if missing is not None:
        raise StateDamaged(f"{history.store.directory}/{missing}", f"it is not there, and the snapshot {name} needs it")
    return head


def follow(history: History, way: Plan, target: Commit, loaded: Loaded) -> None:
    """Carry out the plan ``way``: change ``loaded`` into the version of the commit ``target``. After a failure
    ``loaded`` is broken. Raises `StateDamaged`, `EngineFailed`.
    """
    loaded.broken = True  # until all changes up to the commit are applied
    head = history.delta(target)
    families = head.families.numbers
    for number in loaded.families.numbers - families:
        remove_family(loaded.engine, number)
    for run in way.snapshot.runs if way.snapshot else ():
        for part in run.parts:
            apply_rows(loaded.engine, open_part(history, run, part.name).batches(), families)
    for commit in way.deltas:
        apply_rows(loaded.engine, history.open_delta(commit)[1].batches(), families)
    loaded.commit, loaded.families, loaded.keys = target, head.families, head.keys
    loaded.broken = False


def open_part(history: History, run: Run, part: str) -> OpenedFile:
    """Open the file named ``part`` of a run (merged changes of several commits). Raises `StateDamaged`, also for a
    missing file, because an existing snapshot lists the file.
    """
    name = parse_name(part)
    path = f"{history.store.directory}/{part}"
    if name is None or name.kind not in (Kind.RUN, Kind.DELTA):
        raise StateDamaged(path, "it has no name of a run's file")
    try:
        opened = history.open(name)
    except FileMissing as error:
        raise StateDamaged(path, "it is not there, and a snapshot needs it") from error
    head = opened.head
    if isinstance(head, DeltaHead):
        head = RunHead(head.version - 1, head.version)
    if head != RunHead(run.after, run.version):
        raise StateDamaged(path, "it is of other versions than the snapshot says")
    return opened


def apply_rows(engine: Engine, batches: Iterable[list[Row]], families: frozenset[int]) -> None:
    """Apply the changes in the rows of record batches to an engine. Rows of column families whose number is not in
    ``families`` are skipped, because these families were removed since.
    """
    for batch in batches:
        if _number(batch[0]) == _number(batch[-1]):
            if _number(batch[0]) not in families:
                continue
        else:
            batch = [row for row in batch if _number(row) in families]
        appended = [key for key, op, _ in batch if op == Op.APPEND]
        before = dict(zip(appended, engine.get_many(appended), strict=True)) if appended else {}
        engine.apply([(key, outcome(before.get(key), (op, value))) for key, op, value in batch])


def remove_family(engine: Engine, number: int) -> int:
    """Remove all keys of the column family ``number`` from an engine, and return how many there were."""
    prefix = prefix_of(number)
    count = 0
    while True:
        found = [key for (key, _), _ in zip(engine.scan(prefix, after_prefix(prefix)), range(_CHUNK), strict=False)]
        engine.apply([(key, None) for key in found])
        count += len(found)
        if len(found) < _CHUNK:
            return count


def _number(row: Row) -> int:
    return int.from_bytes(row[0][:PREFIX_BYTES], "big")


class VersionCache:
    """The loaded versions of one state store. Several readers share a loaded version; a writer has its version
    exclusively.
    """

    def __init__(self, most_idle: int) -> None:
        """Make an empty cache, which keeps at most ``most_idle`` idle versions, the most recently used ones."""
        self._most_idle = most_idle
        self._lock = threading.Lock()
        self._idle: list[Loaded] = []
        self._readers: dict[int, int] = {}
        self._shared: list[Loaded] = []
        self._closed = False

    def take(self, commit: Commit | None) -> Loaded | None:
        """Take an idle loaded version of this commit (None for version 0) for exclusive use; return None if there is
        none.
        """
        with self._lock:
            for loaded in self._idle:
                if loaded.commit == commit:
                    self._idle.remove(loaded)
                    return loaded
        return None

    def join(self, commit: Commit | None) -> Loaded | None:
        """Share the loaded version of this commit (None for version 0) with its other readers; return None if no reader
        has one.
        """
        with self._lock:
            for loaded in self._shared:
                if loaded.commit == commit and not loaded.broken:
                    self._readers[id(loaded)] += 1
                    return loaded
        return None

    def share(self, loaded: Loaded) -> None:
        """Let other readers share, by `join`, a loaded version that the caller has exclusively."""
        with self._lock:
            self._shared.append(loaded)
            self._readers[id(loaded)] = 1

    def put_back(self, loaded: Loaded) -> None:
        """Give back a version that the caller took, joined or loaded. Once no reader uses it, it stays loaded as an
        idle version, unless there are too many idle versions.
        """
        with self._lock:
            if id(loaded) in self._readers:
                self._readers[id(loaded)] -= 1
                if self._readers[id(loaded)] > 0:
                    return
                del self._readers[id(loaded)]
                self._shared = [other for other in self._shared if other is not loaded]
            if self._closed or loaded.broken:
                surplus = [loaded]
            else:
                self._idle.insert(0, loaded)
                surplus, self._idle = self._idle[self._most_idle :], self._idle[: self._most_idle]
        for one in surplus:
            one.engine.close()

    def clear(self) -> None:
        """Close the loaded versions that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for loaded in idle:
            loaded.engine.close()

    def close(self) -> None:
        """Close the loaded versions that are not in use. A version in use is closed when it is put back."""
        with self._lock:
            self._closed = True
        self.clear()
