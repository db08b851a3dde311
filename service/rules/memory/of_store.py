"""What is known of one store's records beside the records themselves."""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedList

from service.rules.memory.lookup import is_pending
from service.rules.records import Corrupt, Handle, Record

_LAST = "\U0010ffff"
"""Sorts behind every name."""


class OfStore:
    """Indexes over the records of one store; `handle_changed` and `clear` keep them, at a price that does not grow with
    the store.

    ``names``: of the handles that a listing tells of, sorted. It is never emptied: a clear puts another in its place,
    so that who goes through it may go on. ``born``: revision and name of every handle that is not gone, those that were
    cleared included, which come first. ``damaged``: names of handles whose records cannot be read. ``pending``: keys of
    uploads.
    """

    __slots__ = ("born", "cleared", "damaged", "name", "names", "pending")

    def __init__(self, name: str) -> None:
        self.name = name
        self.names: SortedList[str] = SortedList()
        self.born: SortedList[tuple[int, str]] = SortedList()
        self.damaged: dict[str, None] = {}
        self.pending: dict[str, None] = {}
        self.cleared = 0

    def clear(self, cleared: int) -> None:
        """Handles born at or before this revision count as absent from now on. What remains of the others is as a rule
        nothing, so this takes no longer in a large store.
        """
        self.cleared = cleared
        left = [name for _, name in self.born.irange((cleared, _LAST))]
        self.names = SortedList([*left, *self.damaged])

    def handle_changed(self, name: str, old: Record | None, new: Record | None) -> None:
        """A handle has another record now, or none."""
        was_born, is_born = _born(old), _born(new)
        was_damaged, is_damaged = type(old) is Corrupt, type(new) is Corrupt
        if (was_born, was_damaged) == (is_born, is_damaged):
            return
        was = was_damaged or (was_born is not None and was_born > self.cleared)
        is_ = is_damaged or (is_born is not None and is_born > self.cleared)
        if was and not is_:
            self.names.remove(name)
        elif is_ and not was:
            self.names.add(name)
        if was_born != is_born:
            if was_born is not None:
                self.born.remove((was_born, name))
            if is_born is not None:
                self.born.add((is_born, name))
        _keep(self.damaged, name, is_damaged)

    def upload_changed(self, key: str, new: Record | None) -> None:
        """An upload has another record now, or none."""
        _keep(self.pending, key, is_pending(new))

    @property
    def has_cleared(self) -> bool:
        """Whether there are records of handles that were cleared away."""
        return bool(self.born) and self.born[0][0] <= self.cleared

    def cleared_names(self) -> Iterator[str]:
        """The handles that were cleared away and whose records are still there, the oldest first."""
        return (name for _, name in self.born.irange(maximum=(self.cleared, _LAST)))

    def count_above(self, cleared: int) -> int:
        """How many handles a listing would tell of if those born up to ``cleared`` were cleared."""
        spared: int = len(self.born) - self.born.bisect_right((cleared, _LAST))
        return spared + len(self.damaged)


def _born(record: Record | None) -> int | None:
    return record.born if type(record) is Handle and not record.gone else None


def _keep(names: dict[str, None], name: str, there: bool) -> None:
    if there:
        names[name] = None
    elif names:
        names.pop(name, None)
