"""Reads the state of a job as a table: keys, names of variables and values, at any kept snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from milepost.state.cells.lifetime import Lifetime, decode_time
from milepost.state.errors import InvalidUse
from milepost.state.key_groups import entries_of, split_entry, with_group, without_group
from milepost.state.processors.keys import GroupingKey
from milepost.state.processors.snapshot import Layout, Snapshot
from milepost.state.processors.types import RowMaker, tuples
from milepost.state.processors.variables import RowCoder, StateVariable
from milepost.state.store.contract.values import ChangeKind
from milepost.state.store.files.contract import StateFiles
from milepost.state.store.provider import FileStateStoreProvider
from milepost.state.store.rows import after_prefix
from milepost.state.store.settings import ProviderSettings


@dataclass(frozen=True)
class Entry:
    """A value of a state variable. ``entry`` is the key of a map entry, and None for variables that are not maps. Each
    row of a list is an `Entry` of its own. ``expires`` is the time of expiry in milliseconds since 1970, None for a
    value that never expires. An expired value stays until a batch removes it.
    """

    key: tuple[Any, ...]
    variable: str
    entry: tuple[Any, ...] | None
    value: tuple[Any, ...]
    expires: int | None = None


@dataclass(frozen=True)
class Changed:
    """One change that a batch made to a value. ``version`` is the number of the batch's snapshot. ``kind`` is ``put``,
    ``append`` or ``remove``; a removal has no ``values``.
    """

    version: int
    kind: str
    key: tuple[Any, ...]
    variable: str
    entry: tuple[Any, ...] | None
    values: tuple[tuple[Any, ...], ...]


class StateReader:
    """Reads the state of a job at its newest snapshot and at earlier ones. It loads no state store, and reads only
    files that may contain the requested keys.
    """

    def __init__(self, files: StateFiles, snapshot: Snapshot, *, rows: RowMaker = tuples) -> None:
        """``files`` is the storage of the state, and ``snapshot`` the snapshot that was published last."""
        self._files = files
        self._snapshot = snapshot
        self._rows = rows
        self._key = GroupingKey(snapshot.key)

    @property
    def version(self) -> int:
        """The number of the newest snapshot of the state."""
        return self._snapshot.version

    @property
    def key(self) -> list[tuple[str, str]]:
        """The name and the type of each column of the grouping key."""
        return list(self._key.columns)

    def variable(self, name: str) -> StateVariable:
        """Return the state variable ``name``. Raises `InvalidUse` if no variable has this name."""
        return self._chosen(name)[0]

    def partitions(self, version: int | None = None) -> int:
        """Return the number of partitions of the state at the snapshot ``version``, by default the newest. Raises
        `VersionNotFound` if the snapshot is not kept.
        """
        return len(self._snapshot.at(self._or_newest(version))[0].commits)

    def entries(
        self,
        variable: str | None = None,
        *,
        version: int | None = None,
        partitions: Sequence[int] | None = None,
    ) -> Iterator[Entry]:
        """Iterate over the values of a variable, or of all variables, at the snapshot ``version`` (by default the
        newest), sorted by key within each partition. Raises `InvalidUse` for an unknown variable, `VersionNotFound` for
        a snapshot that is not kept, and `StateDamaged`.
        """
        chosen = self._chosen(variable)
        layout, behind = self._snapshot.at(self._or_newest(version))
        for partition in range(len(layout.commits)) if partitions is None else partitions:
            yield from self._scan(layout, behind, partition, chosen, None, None)

    def get(self, key: Sequence[Any], variable: str | None = None, *, version: int | None = None) -> list[Entry]:
        """Return the values of one key, reading only files that may contain the key. Raises the errors of `entries`,
        and `CoderError` for a key that does not match the columns.
        """
        return list(self.values_of(key, variable, version=version))

    def values_of(
        self, key: Sequence[Any], variable: str | None = None, *, version: int | None = None
    ) -> Iterator[Entry]:
        """Iterate over the values that `get` returns, without holding all of them in memory."""
        encoded = self._key.encode(tuple(key))
        layout, behind = self._snapshot.at(self._or_newest(version))
        group = self._snapshot.groups.group(encoded)
        partition = self._snapshot.groups.task_of(group, len(layout.commits))
        for one in self._chosen(variable):
            if one.kind == "map":
                start = entries_of(self._snapshot.groups, encoded)
                end = after_prefix(start)
            else:
                start = with_group(self._snapshot.groups, encoded)
                end = start + b"\0"
            yield from self._scan(layout, behind, partition, [one], start, end)

    def changes(self, start: int, end: int | None = None, *, variable: str | None = None) -> Iterator[Changed]:
        """Iterate over the changes that the snapshots from ``start`` to ``end``, both included, made; one partition
        follows the other. ``end`` is the newest snapshot by default. Raises the errors of `entries`. Raises
        `InvalidUse` if the snapshots do not all have the same layout (division into partitions), since a new layout
        writes all keys again.
        """
        end = self._or_newest(end)
        layout, behind = self._snapshot.at(end)
        first, before = self._snapshot.at(start)
        if first != layout or start > end or (start == layout.after + 1 and layout.after > 0):
            raise InvalidUse(f"the snapshots from {start} to {end} do not all go on from the same layout")
        wanted = {one.family: one for one in self._chosen(variable)}
        for partition in range(len(layout.commits)):
            provider = self._provider(layout, partition)
            try:
                newest = layout.commits[partition]
                last = newest[0] - behind
                shift = end - last
                found = provider.changes(newest[0] - before, last, id=provider.id_of(last, newest))
                for change in found:
                    one = wanted.get(change.family)
                    if one is None:
                        continue
                    key, entry = self._split(one, change.key)
                    values = () if change.kind is ChangeKind.REMOVE else change.values
                    coder = RowCoder(one.schemas, rows=self._rows)
                    rows = tuple(coder.decode(_plain(one, value)) for value in values)
                    yield Changed(change.version + shift, change.kind.value, key, one.name, entry, rows)
            finally:
                provider.close()

    def _or_newest(self, version: int | None) -> int:
        return self.version if version is None else version

    def _scan(
        self,
        layout: Layout,
        behind: int,
        partition: int,
        variables: Sequence[StateVariable],
        start: bytes | None,
        end: bytes | None,
    ) -> Iterator[Entry]:
        provider = self._provider(layout, partition)
        try:
            newest = layout.commits[partition]
            version = newest[0] - behind
            source = provider.get_range_reader(version, newest[1] if not behind else provider.id_of(version, newest))
            there = source.all_column_family_names()
            for one in variables:
                if one.family not in there:
                    continue
                coder = RowCoder(one.schemas, rows=self._rows)
                for kept, values in source.entries(start, end, one.family):
                    key, entry = self._split(one, kept)
                    for value in values:
                        expires = None if one.ttl is None else decode_time(value)
                        yield Entry(key, one.name, entry, coder.decode(_plain(one, value)), expires)
        finally:
            provider.close()

    def _split(self, variable: StateVariable, kept: bytes) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
        if variable.kind != "map":
            return self._key.decode(without_group(kept)[1]), None
        _, key, entry = split_entry(kept)
        return self._key.decode(key), RowCoder((variable.key,), rows=self._rows, numbered=False).decode(entry)

    def _provider(self, layout: Layout, partition: int) -> FileStateStoreProvider:
        provider = FileStateStoreProvider(self._files, ProviderSettings(maintenance_interval=None))
        provider.init(layout.store(self._snapshot.name, partition))
        return provider

    def _chosen(self, variable: str | None) -> list[StateVariable]:
        if variable is None:
            return list(self._snapshot.variables.values())
        found = self._snapshot.variables.get(variable)
        if found is None:
            there = ", ".join(self._snapshot.variables) or "none"
            raise InvalidUse(f"the state {self._snapshot.name!r} has no variable {variable!r}, but {there}")
        return [found]


def _plain(variable: StateVariable, value: bytes) -> bytes:
    return value if variable.ttl is None else Lifetime.value(value)
