"""Index the records of one store, and the sessions that a listing shows with the epochs that each holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from sortedcontainers import SortedList

from milepost_server.memory.lookup import is_pending
from milepost_server.model.paths import is_temporary
from milepost_server.model.records import Corrupt, Handle, Record, Session, Store
from milepost_server.model.trees import TreePath

_LAST = "\U0010ffff"
"""This sorts after every name."""

_Life = tuple[str, int]
"""A session's id and the revision at which it was created: an id may be used again long after its session ended."""


class StoreIndex:
    """These indexes cover the records of one store. Updating them does not cost more in a larger store.

    ``names`` holds the handles that a listing shows, sorted. It is never emptied: a clear puts another list in its
    place, so that a task which goes through the old one can go on. ``created`` holds, for every handle that is not
    gone, the revision at which it was added and its name; those that were cleared come first. ``damaged`` holds the
    names of handles whose records cannot be read, and ``pending`` the keys of pending uploads. ``paths`` holds every
    path of the store's tree that has a record, sorted, ``deleted`` the revision at which each of its dead entries died,
    and the path, and ``temporary_files`` the revision at which a file under a temporary name was born, and its path.
    ``unfinished`` says whether the tree has range tombstones or rollbacks that not every path knows of.
    """

    __slots__ = (
        "cleared",
        "created",
        "damaged",
        "deleted",
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
        self.unfinished = False
        self.cleared = 0

    def clear(self, cleared: int) -> None:
        """Count handles born at or before this revision as absent from now on.

        As a rule no handle was born after it, so this takes no longer in a large store.
        """
        self.cleared = cleared
        born_after = [name for _, name in self.created.irange((cleared, _LAST))]
        self.names = SortedList([*born_after, *self.damaged])

    def handle_changed(self, name: str, old: Record | None, new: Record | None) -> None:
        """Note that a handle has another record now, or none."""
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
                self.created.remove((was_born, name))
            if is_born is not None:
                self.created.add((is_born, name))
        _keep(self.damaged, name, is_damaged)

    def upload_changed(self, key: str, new: Record | None) -> None:
        """Note that an upload has another record now, or none."""
        _keep(self.pending, key, is_pending(new))

    def path_changed(self, old: Record | None, new: Record | None) -> None:
        """Note that a path of the tree has another record now, or none."""
        was, is_ = (record if isinstance(record, TreePath) else None for record in (old, new))
        if was is None and is_ is not None:
            self.paths.add(is_.path)
        elif was is not None and is_ is None:
            self.paths.remove(was.path)
        were_deleted, are_deleted = _deleted(was), _deleted(is_)
        for deleted in were_deleted - are_deleted:
            self.deleted.remove(deleted)
        for deleted in are_deleted - were_deleted:
            self.deleted.add(deleted)
        _move(self.temporary_files, _temporary(was), _temporary(is_))

    @property
    def may_be_trimmed(self) -> bool:
        """Return whether the tree has anything that may have to be dropped."""
        return bool(self.deleted or self.temporary_files or self.unfinished)

    @property
    def has_cleared(self) -> bool:
        """Return whether there are records of handles that were cleared away."""
        return bool(self.created) and self.created[0][0] <= self.cleared

    def cleared_names(self) -> Iterator[str]:
        """Yield the handles that were cleared away and whose records are still there, the oldest first."""
        return (name for _, name in self.created.irange(maximum=(self.cleared, _LAST)))

    def count_above(self, cleared: int) -> int:
        """Return how many handles a listing would show if those born up to revision ``cleared`` were cleared."""
        born_after: int = len(self.created) - self.created.bisect_right((cleared, _LAST))
        return born_after + len(self.damaged)


def _born(record: Record | None) -> int | None:
    return record.created_revision if type(record) is Handle and not record.gone else None


def _deleted(record: TreePath | None) -> set[tuple[int, str]]:
    """Return when the entries of a path died, each with the path."""
    return (
        set()
        if record is None
        else {(entry.deleted_revision, record.path) for entry in record.entries if entry.deleted_revision}
    )


def _temporary(record: TreePath | None) -> tuple[int, str] | None:
    """Return when the file under a temporary name was born, and its path; None if it is none."""
    entry = None if record is None else record.newest
    if record is None or entry is None or entry.directory or not is_temporary(record.path):
        return None
    return entry.created_revision, record.path


def _move(index: SortedList[tuple[int, str]], was: tuple[int, str] | None, is_: tuple[int, str] | None) -> None:
    if was != is_:
        if was is not None:
            index.remove(was)
        if is_ is not None:
            index.add(is_)


def _keep(names: dict[str, None], name: str, there: bool) -> None:
    if there:
        names[name] = None
    elif names:
        names.pop(name, None)


class SessionIndex:
    """The sessions that live or cannot be read, sorted by id, and for each life of a session the stores that it leads.

    Updating this does not cost more with more sessions or stores.
    """

    def __init__(self) -> None:
        self._listed: SortedList[str] = SortedList()
        self._led: dict[_Life, SortedList[str]] = {}

    def session_changed(self, session: str, old: Record | None, new: Record | None) -> None:
        """Note that a session has another record now, or none."""
        was, is_ = _is_listed(old), _is_listed(new)
        if was and not is_:
            self._listed.remove(session)
        elif is_ and not was:
            self._listed.add(session)

    def store_changed(self, store: str, old: Record | None, new: Record | None) -> None:
        """Note that a store's own record is another one now, which may name another session as its epoch's."""
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
        """Yield the ids of the sessions that live or cannot be read, sorted, from the one after ``after`` on."""
        return iter(self._listed.irange(after, inclusive=(False, True)))

    def led_by(self, session: Session, most: int) -> list[str]:
        """Return the names of the stores whose epoch the session holds, sorted, ``most`` of them at most."""
        return list(islice(self._led.get((session.id, session.created_revision), ()), most))


def _is_listed(record: Record | None) -> bool:
    """Return whether a listing shows this record. One of an ended session is there only to be told from none."""
    return isinstance(record, Corrupt) or (isinstance(record, Session) and not record.ended)


def _leader(record: Record | None) -> _Life | None:
    if not isinstance(record, Store) or record.epoch_session is None:
        return None
    return record.epoch_session, record.epoch_session_created
