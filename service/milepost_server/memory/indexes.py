"""Indexes over the records of one store, and over the sessions and the stores whose epochs they hold."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice
from typing import Final

from sortedcontainers import SortedList

from milepost_server.memory.lookup import is_pending
from milepost_server.model.history import page_of
from milepost_server.model.paths import is_temporary
from milepost_server.model.records import Corrupt, Handle, Record, Session, Store, Upload
from milepost_server.model.trees import TreePath

_LAST = "\U0010ffff"
"""A string that sorts after every name."""

Aged = tuple[int, str]
"""The key of a record that waits to be dropped, after the revision from which its age counts."""

_NONE: Final[Set[tuple[int, str]]] = frozenset()

_Life = tuple[str, int]
"""A session's id and the revision at which it was created. The id alone is not unique, since it may be reused long
after its session ended.
"""


class StoreIndex:
    """The indexes over the records of one store. The cost of an update does not grow with the store.

    ``names`` has the handles in a listing, sorted. A clear replaces the list by a new one, so that a task that iterates
    over the old list can continue. ``created`` has, for every handle that is not gone, the revision at which it was
    added and its name; handles that were cleared come first. ``damaged`` has the names of handles whose records cannot
    be read, and ``pending`` the keys of pending uploads. ``paths`` has every path of the store's tree that has a
    record, sorted. ``deleted`` has the revision and path of each deleted entry, and ``temporary_files`` the creation
    revision and path of each file under a temporary name. ``unfinished`` is whether the tree has range tombstones or
    rollbacks that the records of some paths do not reflect yet. ``history`` has the numbers of the pages of each log of
    the store's history, and ``damaged_pages`` counts those that cannot be read.
    """

    __slots__ = (
        "cleared",
        "created",
        "damaged",
        "damaged_pages",
        "deleted",
        "history",
        "name",
        "names",
        "paths",
        "pending",
        "temporary_files",
        "unfinished",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.names: SortedList[str] = SortedList()
        self.created: SortedList[tuple[int, str]] = SortedList()
        self.damaged: dict[str, None] = {}
        self.pending: dict[str, None] = {}
        self.paths: SortedList[str] = SortedList()
        self.deleted: SortedList[tuple[int, str]] = SortedList()
        self.temporary_files: SortedList[tuple[int, str]] = SortedList()
        self.history: dict[str, SortedList[int]] = {}
        self.damaged_pages = 0
        self.unfinished = False
        self.cleared = 0

    def clear(self, cleared: int) -> None:
        """Count handles that were created at or before revision ``cleared`` as absent from now on. The cost depends
        only on the number of handles that were created later, of which there are usually none.
        """
        self.cleared = cleared
        born_after = [name for _, name in self.created.irange((cleared, _LAST))]
        self.names = SortedList([*born_after, *self.damaged])

    def handle_changed(self, name: str, old: Record | None, new: Record | None) -> None:
        """Note that the record of the handle ``name`` was added, replaced or removed."""
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
        born = ((created, name) if created is not None else None for created in (was_born, is_born))
        move(self.created, *born)
        mark(self.damaged, name, is_damaged)

    def upload_changed(self, key: str, new: Record | None) -> None:
        """Note that the record of an upload was added, replaced or removed."""
        mark(self.pending, key, is_pending(new))

    def path_changed(self, was: TreePath | None, is_: TreePath | None) -> bool:
        """Note that the record of a path of the tree was added, replaced or removed. None stands for no record, and for
        one that cannot be read. Return whether `may_be_trimmed` may have another value now.
        """
        either = was if is_ is None else is_
        if either is None:
            return False
        path, changed = either.path, False
        if was is None:
            self.paths.add(path)
        elif is_ is None:
            self.paths.remove(path)
        if (was is not None and (len(was.entries) != 1 or was.entries[0].deleted_revision)) or (
            is_ is not None and (len(is_.entries) != 1 or is_.entries[0].deleted_revision)
        ):  # seldom: nearly all paths have one entry, which is not deleted
            were_deleted, are_deleted = _deleted(was), _deleted(is_)
            for deleted in were_deleted - are_deleted:
                self.deleted.remove(deleted)
            for deleted in are_deleted - were_deleted:
                self.deleted.add(deleted)
            changed = True
        if is_temporary(path):
            move(self.temporary_files, _file(was), _file(is_))
            changed = True
        return changed

    def page_changed(self, key: str, old: Record | None, new: Record | None) -> None:
        """Note that a page of the history was added, replaced or removed."""
        self.damaged_pages += isinstance(new, Corrupt) - isinstance(old, Corrupt)
        found = page_of(key)
        if found is None or (old is None) is (new is None):
            return
        log, number = found
        numbers = self.history.setdefault(log, SortedList())
        if new is None:
            numbers.remove(number)
        else:
            numbers.add(number)

    @property
    def may_be_trimmed(self) -> bool:
        """Return whether the tree may have entries, tombstones or rollbacks that maintenance can drop."""
        return bool(self.deleted or self.temporary_files or self.unfinished)

    @property
    def has_cleared(self) -> bool:
        """Return whether the store still has records of cleared handles."""
        return bool(self.created) and self.created[0][0] <= self.cleared

    def cleared_names(self) -> Iterator[str]:
        """Yield the names of cleared handles whose records still exist, the oldest first."""
        return (name for _, name in self.created.irange(maximum=(self.cleared, _LAST)))

    def count_above(self, cleared: int) -> int:
        """Return how many handles a listing would show if the handles created up to revision ``cleared`` were
        cleared.
        """
        born_after: int = len(self.created) - self.created.bisect_right((cleared, _LAST))
        return born_after + len(self.damaged)


def _born(record: Record | None) -> int | None:
    return record.created_revision if type(record) is Handle and not record.gone else None


def _deleted(record: TreePath | None) -> Set[tuple[int, str]]:
    """Return a pair for each deleted entry of a path: the revision at which it was deleted, and the path."""
    if record is None:
        return _NONE
    return {(entry.deleted_revision, record.path) for entry in record.entries if entry.deleted_revision}


def _file(record: TreePath | None) -> tuple[int, str] | None:
    """Return the creation revision and the path of a file; None for any other record."""
    entry = None if record is None else record.newest
    if record is None or entry is None or entry.directory:
        return None
    return entry.created_revision, record.path


class SessionIndex:
    """The sessions that are alive, or whose records cannot be read, sorted by id, and the stores whose epoch each
    session holds. The cost of an update does not grow with the number of sessions or stores.
    """

    def __init__(self) -> None:
        self._listed: SortedList[str] = SortedList()
        self._led: dict[_Life, SortedList[str]] = {}

    def session_changed(self, session: str, old: Record | None, new: Record | None) -> None:
        """Note that the record of a session was added, replaced or removed."""
        was, is_ = _is_listed(old), _is_listed(new)
        if was and not is_:
            self._listed.remove(session)
        elif is_ and not was:
            self._listed.add(session)

    def store_changed(self, store: str, old: Record | None, new: Record | None) -> None:
        """Note that a store's own record was added or replaced, so that another session may hold the store's epoch."""
        was, is_ = _leader(old), _leader(new)
        if was == is_:
            return
        if was is not None:
            stores = self._led[was]
            stores.remove(store)
            if not stores:
                del self._led[was]
        if is_ is not None:
            self._led.setdefault(is_, SortedList()).add(store)

    def listed(self, after: str) -> Iterator[str]:
        """Yield the ids of the sessions that live or cannot be read, sorted, beginning after the id ``after``."""
        return iter(self._listed.irange(after, inclusive=(False, True)))

    def led_by(self, session: Session, most: int) -> list[str]:
        """Return the names of the stores whose epoch the session holds, sorted, ``most`` of them at most."""
        return list(islice(self._led.get((session.id, session.created_revision), ()), most))


def _is_listed(record: Record | None) -> bool:
    """Return whether a listing shows the session with this record. An ended session is not shown: its record is kept
    only to answer for an hour that the session has ended.
    """
    return isinstance(record, Corrupt) or (isinstance(record, Session) and not record.ended)


def _leader(record: Record | None) -> _Life | None:
    if not isinstance(record, Store) or record.epoch_session is None:
        return None
    return record.epoch_session, record.epoch_session_created


def mark(names: dict[str, None], name: str, marked: bool) -> None:
    """Add a name to ``names`` if ``marked``, else remove it. The names stay in the order in which they were added."""
    if marked:
        names[name] = None
    else:
        names.pop(name, None)


def move(index: SortedList[Aged] | SortedList[str], old: Aged | str | None, new: Aged | str | None) -> None:
    """Put ``new`` into a sorted index in place of ``old``; None stands for no entry."""
    if old != new:
        if old is not None:
            index.remove(old)
        if new is not None:
            index.add(new)


def used_up_since(key: str, record: Record | None) -> Aged | None:
    """Return, for an upload that has ended, the revision from which the age of its record counts, and the key; None for
    any other record. The age counts from the upload's creation, when the answer that the record keeps was given.
    """
    return (record.created_revision, key) if isinstance(record, Upload) and record.ended else None


def ended_since(key: str, record: Record | None) -> Aged | None:
    """Return, for a session that has ended, the revision of its end and the key; None for any other record."""
    return (record.ended, key) if isinstance(record, Session) and record.ended else None
