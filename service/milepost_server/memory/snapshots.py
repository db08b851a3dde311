"""Snapshots of all records in memory at one revision, for large answers that are assembled while later changes are
committed. They are not the snapshots of a tree, which users see.

Taking a snapshot copies nothing. When a later change replaces or removes a record for the first time, the snapshot
keeps the old record, for as long as the snapshot is referenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge

from sortedcontainers import SortedList

from milepost_server.memory.lookup import Lookup
from milepost_server.model.records import Record, handle_of


class Snapshot(Lookup):
    """The committed records in memory as they were when this snapshot was taken.

    A snapshot keeps the old records of changes until the next snapshot, ``newer``, is taken. The old records of later
    changes are in ``newer``. So each change is noted in one snapshot only, however many there are.
    """

    def __init__(self, get: Callable[[str], Record | None], names_of: Callable[[str], SortedList[str] | None]) -> None:
        self._get = get
        self._names_of = names_of
        self._before: dict[str, Record | None] = {}
        self._names: dict[str, SortedList[str]] = {}
        self._lists: dict[str, SortedList[str]] = {}
        self.newer: Snapshot | None = None

    @property
    def is_current(self) -> bool:
        """Return whether no record has changed since the snapshot was taken."""
        return not self._before

    def note(self, key: str, old: Record | None) -> None:
        """Note that ``old`` was under ``key`` until now; None means that there was no record."""
        if key in self._before:
            return
        self._before[key] = old
        if old is not None and (located := handle_of(key)) is not None:
            store, name = located
            names = self._names.get(store)
            if names is None:
                names = self._names[store] = SortedList()
            names.add(name)

    def note_names(self, store: str, names: SortedList[str]) -> None:
        """Note that ``names`` was the list of the store's handles until now. The caller must not change this list any
        more.
        """
        self._lists.setdefault(store, names)

    def get(self, key: str) -> Record | None:
        """Return the record that was under ``key`` when the snapshot was taken; None if there was none."""
        for snapshot in self._chain():
            if key in snapshot._before:
                return snapshot._before[key]
        return self._get(key)

    def names(self, store: str, after: str = "") -> Iterator[str]:
        """Yield the names of the store's handles in the snapshot, sorted, beginning after the name ``after``.

        The result may include other names too, so the caller must look up each name. After any change of the state, the
        caller must not continue the iteration, but call this method again with the last name that it got.
        """
        chain = list(self._chain())
        kept = [snapshot._names[store] for snapshot in chain if store in snapshot._names]
        replaced = (snapshot._lists[store] for snapshot in chain if store in snapshot._lists)
        base = next(replaced, None)
        if base is None:
            base = self._names_of(store)
        last = None
        every = [names for names in (base, *kept) if names is not None]
        for name in merge(*(names.irange(after, inclusive=(False, True)) for names in every)):
            if name != last:
                yield name
                last = name

    def _chain(self) -> Iterator[Snapshot]:
        snapshot: Snapshot | None = self
        while snapshot is not None:
            yield snapshot
            snapshot = snapshot.newer
