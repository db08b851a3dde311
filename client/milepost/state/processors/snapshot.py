"""Snapshots of a job's state: one consistent state of all partitions, as a document that one compare-and-set
publishes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from milepost.state.errors import FileMissing, InvalidUse, StateDamaged, VersionNotFound
from milepost.state.key_groups import KeyGroups
from milepost.state.processors.keys import GroupingKey
from milepost.state.processors.timers import TimeMode
from milepost.state.processors.variables import StateVariable
from milepost.state.store.contract.values import StateStoreId
from milepost.state.store.files.contract import StateFiles
from milepost.state.store.format.names import Kind, StateFileName

FORMAT = 1
Commits = tuple[tuple[int, str], ...]
"""For each partition, the version of its store and the id of the commit."""


@dataclass(frozen=True)
class Layout:
    """A division of a state into partitions, each with its own state store, and the snapshots that were made with this
    division.

    ``after`` is the number of the snapshot before the first one of the layout, and ``commits`` has the commits of the
    last one. Each snapshot of a layout is one version of each state store. So an earlier snapshot is a lower version of
    each store, and the history of ``commits`` leads to it.
    """

    number: int
    after: int
    commits: Commits

    def store(self, name: str, partition: int) -> StateStoreId:
        """Return the id of the state store of a partition; ``name`` is that of the state."""
        return store_of(name, self.number, len(self.commits), partition)


@dataclass(frozen=True)
class Snapshot:
    """The state of all partitions after a batch. ``version`` counts the snapshots. ``layouts`` has the divisions into
    partitions of all snapshots that may still be read, oldest first. ``retired`` has the number and the count of
    partitions of each layout that has no kept snapshot any more: its state stores can be removed once this snapshot is
    published.
    """

    name: str
    version: int
    batch: int
    groups: KeyGroups
    key: tuple[tuple[str, str], ...]
    mode: TimeMode
    variables: Mapping[str, StateVariable]
    layouts: tuple[Layout, ...]
    retired: tuple[tuple[int, int], ...] = ()

    @property
    def layout(self) -> Layout:
        """The newest layout: the division into partitions with which this snapshot was made."""
        return self.layouts[-1]

    @property
    def partitions(self) -> int:
        """The number of partitions of this snapshot."""
        return len(self.layout.commits)

    def at(self, version: int) -> tuple[Layout, int]:
        """Return the layout (division into partitions) of the earlier snapshot ``version``, and by how many versions
        the snapshot's state stores are older than the layout's ``commits``. Raises `VersionNotFound` for a snapshot
        that is not kept.
        """
        last = self.version
        for layout in reversed(self.layouts):
            if layout.after < version <= last:
                return layout, last - version
            last = layout.after
        raise VersionNotFound(
            f"there is no snapshot {version} of the state {self.name!r}: "
            f"those from {self.layouts[0].after + 1} to {self.version} may be there"
        )

    @property
    def commits(self) -> list[str]:
        """The paths of the files of this snapshot's commits, in the order of the partitions."""
        return [
            f"{self.layout.store(self.name, partition).directory}/{StateFileName(Kind.DELTA, version, id)}"
            for partition, (version, id) in enumerate(self.layout.commits)
        ]

    def missing(self, files: StateFiles) -> list[int]:
        """Return the partitions whose commit is not stored, although this snapshot names it."""
        lost = []
        for partition, name in enumerate(self.commits):
            try:
                files.read(name, 0, 1)
            except FileMissing:
                lost.append(partition)
        return lost

    def unpublished(self, files: StateFiles) -> list[tuple[int, int]]:
        """Return the layouts (divisions into partitions) that failed attempts wrote in place of the newest layout and
        never published. Each is the number of the layout and the count of its partitions. Only the first snapshot of a
        layout has to look for them, because later attempts have another layout number.
        """
        layout = self.layout
        if self.version != layout.after + 1:
            return []
        tried = (count for count in range(1, self.groups.count + 1) if count != self.partitions)
        stores = ((count, store_of(self.name, layout.number, count, 0)) for count in tried)
        return [(layout.number, count) for count, store in stores if files.list(store.directory)]

    def after(
        self,
        batch: int,
        commits: Commits,
        layout: int,
        variables: Mapping[str, StateVariable],
        keep: int,
        mode: TimeMode,
    ) -> Snapshot:
        """Return the next snapshot, whose partitions have the ``commits`` in the layout (division into partitions)
        number ``layout``. Older layouts stay as long as they have one of the last ``keep`` snapshots.
        """
        version = self.version + 1
        if layout == self.layout.number:
            layouts = (*self.layouts[:-1], replace(self.layout, commits=commits))
        else:
            layouts = (*self.layouts, Layout(layout, self.version, commits))
        ends = [one.after for one in layouts[1:]] + [version]
        kept = tuple(one for one, end in zip(layouts, ends, strict=True) if end > version - keep)
        retired = tuple((one.number, len(one.commits)) for one in layouts if one not in kept)
        return replace(
            self, version=version, batch=batch, variables=dict(variables), layouts=kept, retired=retired, mode=mode
        )

    def to_json(self) -> dict[str, Any]:
        """Convert the snapshot to JSON, with a digest over the name of the state and the rest."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": self.version,
            "batch": self.batch,
            "groups": self.groups.count,
            "key": [list(column) for column in self.key],
            "time": self.mode.value,
            "variables": {name: variable.to_json() for name, variable in self.variables.items()},
            "eras": [[layout.number, layout.after, [list(one) for one in layout.commits]] for layout in self.layouts],
            "retired": [list(one) for one in self.retired],
        }
        return {**document, "digest": _digest(self.name, document)}

    @classmethod
    def from_json(cls, name: str, document: Mapping[str, Any]) -> Snapshot:
        """Read a snapshot of the state ``name`` from the JSON of `to_json`. Raises `StateDamaged` for any other
        document.
        """
        where = f"the snapshot of the state {name!r}"
        try:
            rest = {field: value for field, value in document.items() if field != "digest"}
            if document["format"] != FORMAT:
                raise StateDamaged(where, f"it is of format {document['format']}, and this version knows {FORMAT}")
            if document["digest"] != _digest(name, rest):
                raise StateDamaged(where, "its digest differs")
            found = cls(
                name,
                int(document["version"]),
                int(document["batch"]),
                KeyGroups(int(document["groups"])),
                tuple((str(column), str(kind)) for column, kind in document["key"]),
                TimeMode(document["time"]),
                {one: StateVariable.from_json(one, value) for one, value in document["variables"].items()},
                tuple(
                    Layout(int(number), int(after), tuple((int(version), str(id)) for version, id in commits))
                    for number, after, commits in document["eras"]
                ),
                tuple((int(number), int(partitions)) for number, partitions in document["retired"]),
            )
            _check(found)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StateDamaged(where, f"it cannot be read: {error!r}") from error
        return found


def _check(snapshot: Snapshot) -> None:
    """Raise ValueError for a snapshot that no driver writes. The digest does not prove that a driver wrote it, since
    anyone can compute a digest.
    """
    begins = [layout.after for layout in snapshot.layouts]
    if not begins or begins[0] < 0 or sorted({*begins, snapshot.version}) != [*begins, snapshot.version]:
        raise ValueError("its layouts do not follow each other")
    for layout in snapshot.layouts:
        if not 1 <= len(layout.commits) <= snapshot.groups.count or min(version for version, _ in layout.commits) < 1:
            raise ValueError(f"its layout {layout.number} has commits that cannot be")
    if {(layout.number, len(layout.commits)) for layout in snapshot.layouts} & set(snapshot.retired):
        raise ValueError("it gives up stores that it has")


def first_snapshot(
    name: str,
    batch: int,
    key: GroupingKey,
    groups: KeyGroups,
    commits: Commits,
    variables: Mapping[str, StateVariable],
    mode: TimeMode,
) -> Snapshot:
    """Return the first snapshot of a state, with the number 1. The ``commits`` of its partitions are in the layout
    (division into partitions) number 1.
    """
    return Snapshot(name, 1, batch, groups, tuple(key.columns), mode, dict(variables), (Layout(1, 0, commits),))


def snapshots_of(record: bytes) -> dict[str, Snapshot]:
    """Return the last published snapshot of each state of a job, by name. ``record`` has the bytes of the job record,
    the handle in which the driver publishes its batches. Raises `StateDamaged` if it cannot be read.
    """
    try:
        document = json.loads(record).get("state") or {}
        return {name: Snapshot.from_json(name, one) for name, one in document.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise StateDamaged("the job record", f"it is no JSON of a job: {error}") from error


def job_of(record: bytes) -> str | None:
    """Return the identity of the job that began the states of a job, from ``record``, the bytes of the job record (the
    handle in which the driver publishes its batches). It is the job's own identity, but in a clone. None for bytes that
    do not look like a job record: another program may have a handle of the same name.
    """
    try:
        document = json.loads(record)
    except ValueError:
        return None
    if not isinstance(document, dict) or "schema" not in document:
        return None
    origin = document.get("cloneOf")
    job = origin.get("states") if isinstance(origin, dict) else document.get("job")
    return job if isinstance(job, str) else None


def store_of(name: str, layout: int, partitions: int, partition: int) -> StateStoreId:
    """Return the id of the state store of a partition. ``layout`` is the number of the state's division into
    ``partitions`` partitions. Raises `InvalidUse` if the state's name cannot be part of an id.
    """
    try:
        return StateStoreId(0, partition, f"{name}.{layout}x{partitions}")
    except InvalidUse as error:
        raise InvalidUse(f"no state can be called {name!r}: {error}") from error


def _digest(name: str, document: Mapping[str, Any]) -> str:
    text = json.dumps([name, document], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
