"""Reads ranges of keys of one version of a state store from its files, so that a task that needs only a part of the
store need not load the whole version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from milepost.state.errors import InvalidUse
from milepost.state.store.contract.stores import Pairs
from milepost.state.store.contract.values import DEFAULT_FAMILY
from milepost.state.store.format.files import OpenedFile
from milepost.state.store.format.heads import Run
from milepost.state.store.history import History
from milepost.state.store.loading import Plan, open_part
from milepost.state.store.merging import merged
from milepost.state.store.rows import PREFIX_BYTES, Families, Row, after_prefix, unframed


class RangeReader:
    """One version of a state store, of which ranges of keys are read directly from the files.

    The reader reads only the files and the record batches that may contain a range, verifies each batch before using
    it, and keeps one batch of each file in memory. `FileStateStoreProvider.get_range_reader` makes it. It holds no lock
    on the files: once clean-up has removed the version, reads fail. Every read may raise `StateDamaged` and
    `FilesError`.
    """

    def __init__(
        self, history: History, families: Families, way: Plan | None, opened: Mapping[str, OpenedFile]
    ) -> None:
        """Make a reader; ``way`` is the plan by which the version would be loaded, None for the empty version 0.
        ``families`` has the column families of the version. ``opened`` contains files of commits that are open already,
        by the id of the commit.
        """
        self._history = history
        self._families = families
        self._way = way
        self._opened = dict(opened)

    def all_column_family_names(self) -> frozenset[str]:
        """Return the names of all column families of the version."""
        return frozenset(self._families.by_name)

    def range_scan(self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY) -> Pairs:
        """Iterate over the keys from ``start`` up to, but not including, ``end``, and their values, sorted by key; None
        leaves an end open.
        """
        return self._rows(start, end, family, multiple=False)

    def range_scan_lists(
        self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY
    ) -> Iterator[tuple[bytes, list[bytes]]]:
        """Iterate over the keys from ``start`` up to, but not including, ``end``, of a column family with several
        values for each key; yield each key with the list of its values.
        """
        return ((key, list(unframed(value))) for key, value in self._rows(start, end, family, multiple=True))

    def entries(
        self, start: bytes | None, end: bytes | None, family: str = DEFAULT_FAMILY
    ) -> Iterator[tuple[bytes, list[bytes]]]:
        """Iterate over the keys from ``start`` up to, but not including, ``end``, of a column family of any kind, and
        yield each key with the list of its values; the list has one value if the family has one value for each key.
        """
        if self._families.named(family).multiple:
            return self.range_scan_lists(start, end, family)
        return ((key, [value]) for key, value in self.range_scan(start, end, family))

    def _rows(self, start: bytes | None, end: bytes | None, name: str, *, multiple: bool) -> Pairs:
        family = self._families.named(name)
        if family.multiple != multiple:
            kept = "several values" if family.multiple else "one value"
            raise InvalidUse(f"the column family {name!r} has {kept} for each key")
        first = family.prefix + (start or b"")
        behind = after_prefix(family.prefix) if end is None else family.prefix + end
        if self._way is None:
            return iter(())
        runs = self._way.snapshot.runs if self._way.snapshot else ()
        sources = [
            *(self._rows_of_run(run, first, behind) for run in runs),
            *(self._delta(version, id).rows(first, behind) for version, id in self._way.deltas),
        ]
        rows = merged(sources, frozenset((family.number,)), bottom=True)
        return ((key[PREFIX_BYTES:], value) for key, _, value in rows)

    def _rows_of_run(self, run: Run, first: bytes, behind: bytes | None) -> Iterator[Row]:
        for part in run.parts:
            if part.last >= first and (behind is None or part.first < behind):
                opened = self._opened.get(part.name)
                if opened is None:
                    opened = self._opened[part.name] = open_part(self._history, run, part.name)
                yield from opened.rows(first, behind)

    def _delta(self, version: int, id: str) -> OpenedFile:
        opened = self._opened.get(id)
        if opened is None:
            opened = self._opened[id] = self._history.open_delta((version, id))[1]
        return opened
