"""The index of the jobs among the stores."""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedList

from milepost_server.model.records import Corrupt, Record, Store
from milepost_server.model.trees import Tree


class JobIndex:
    """The names of the stores that are jobs, sorted. The cost of an update does not grow with the number of stores.

    A store is a job once it has an epoch or a snapshot of its files. A store whose own record or whose record of the
    tree cannot be read counts as a job too, so that nobody overlooks a damaged job. A dropped job is in an index of its
    own, until it begins anew. A job that is in another cell, or not yet moved to this one, is in none.
    """

    def __init__(self) -> None:
        self._names: SortedList[str] = SortedList()
        self._dropped: SortedList[str] = SortedList()

    def __len__(self) -> int:
        return len(self._names)

    def changed(self, name: str, store: Record | None, tree: Record | None) -> None:
        """Note that the store ``name`` now has these two records: its own, and that of its tree."""
        is_job = (
            isinstance(store, Corrupt)
            or isinstance(tree, Corrupt)
            or (isinstance(store, Store) and store.epoch > 0)
            or (isinstance(tree, Tree) and bool(tree.snapshots))
        )
        is_dropped = isinstance(store, Store) and store.is_dropped and not isinstance(tree, Corrupt)
        is_here = not isinstance(store, Store) or store.elsewhere is None
        shown, dropped = is_here and is_job and not is_dropped, is_here and is_dropped
        for names, belongs in ((self._names, shown), (self._dropped, dropped)):
            if belongs is not (name in names):
                (names.add if belongs else names.remove)(name)

    def after(self, name: str, *, dropped: bool = False) -> Iterator[str]:
        """Yield the names of the jobs, or of the ``dropped`` ones, sorted, beginning after ``name``."""
        names = self._dropped if dropped else self._names
        return iter(names.irange(name, inclusive=(False, True)))
