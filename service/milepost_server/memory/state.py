"""The committed records in memory, and indexes over them."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence

from sortedcontainers import SortedList

from milepost_server.memory.indexes import Aged, SessionIndex, StoreIndex, ended_since, mark, move, used_up_since
from milepost_server.memory.job_index import JobIndex
from milepost_server.memory.lock_index import LockIndex
from milepost_server.memory.lookup import is_pending
from milepost_server.memory.snapshots import Snapshot
from milepost_server.memory.tree_index import TreeIndex
from milepost_server.model.paths import is_path_key, path_keys, store_of_path_key
from milepost_server.model.records import Corrupt, Handle, Record, Session, Store, Upload, handle_key, store_of
from milepost_server.model.requests.base import KeyScope
from milepost_server.model.trees import Tree, TreePath

_LAST = "\U0010ffff"
"""A string that sorts after every name and every key."""


class State(TreeIndex):
    """The committed records, with indexes for answers and maintenance, so that no operation scans all records.

    `apply` updates every index at a cost that does not grow with the number of records.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, Session | Corrupt] = {}
        self.session_index = SessionIndex()
        self.jobs = JobIndex()
        self.locks = LockIndex()
        self.answers: dict[KeyScope, str] = {}
        """The key of the record that keeps the answer to each request."""
        self._removing: SortedList[str] = SortedList()
        self._gone: SortedList[Aged] = SortedList()
        self._ended: SortedList[Aged] = SortedList()
        self._cleared: dict[str, None] = {}
        self._unreadable: dict[str, int] = {}
        self._damaged: dict[str, None] = {}
        self._snapshot: weakref.ref[Snapshot] | None = None

    def apply(self, changes: Iterable[tuple[str, Record | None]]) -> None:
        """Apply committed changes. Stores' own records come first: if the same changes clear a store and add a handle,
        the handle was added after the clear.
        """
        of_handles: list[tuple[str, Record | None]] = []
        for key, record in changes:
            if key.count("/") > 1:
                of_handles.append((key, record))
            else:
                self._apply(key, record)
        for key, record in of_handles:
            self._apply(key, record)

    def _apply(self, key: str, record: Record | None) -> None:
        old = self.records.get(key)
        if old is None and record is None:
            return
        if self._snapshot is not None and (snapshot := self._snapshot()) is not None:
            snapshot.note(key, old)
        if old is not None and type(old) is not Corrupt and old.answered:
            for scope in scopes(key, old):
                if self.answers.get(scope) == key:
                    del self.answers[scope]
        if record is None:
            del self.records[key]
        else:
            self.records[key] = record
            if type(record) is not Corrupt and record.answered:
                for scope in scopes(key, record):
                    self.answers[scope] = key
        if is_path_key(key) and type(old) is not Corrupt and type(record) is not Corrupt:
            self._index_path(self._index_of(store_of_path_key(key)), old, record)
        else:
            self._index(key, old, record)

    def _index_of(self, store: str) -> StoreIndex:
        index: StoreIndex | None = self._store_indexes.get(store)
        if index is None:
            index = self._store_indexes[store] = StoreIndex(store)
        return index

    def _index(self, key: str, old: Record | None, new: Record | None) -> None:
        parts = key.split("/")
        was_damaged, is_damaged = type(old) is Corrupt, type(new) is Corrupt
        if is_damaged:
            self._damaged[key] = None
        elif was_damaged:
            del self._damaged[key]
        if parts[0] == "sessions" and len(parts) == 2:
            self._index_session(key, parts[-1], old, new)
        if parts[0] != "stores" or len(parts) < 2:
            return
        store = parts[1]
        index = self._index_of(store)
        is_page = len(parts) == 4 and parts[2] == "history"
        if was_damaged is not is_damaged and not is_page:
            self._count_unreadable(index.name, is_damaged - was_damaged)
        if len(parts) == 4 and parts[2] == "files":
            self._index_path(index, old, new)
            return
        if len(parts) == 2:
            self._index_store(index, old, new)
        elif len(parts) == 4 and parts[2] == "handles":
            self._index_handle(key, parts[3], index, old, new)
        elif len(parts) == 4 and parts[2] == "uploads":
            index.upload_changed(key, new)
            move(self._gone, used_up_since(key, old), used_up_since(key, new))
            self._count_blobs(old.blob if is_pending(old) else "", new.blob if is_pending(new) else "")
        elif is_page:
            index.page_changed(key, old, new)
        elif parts[2:] == ["tree"]:
            index.unfinished = isinstance(new, Tree) and bool(new.range_tombstones or new.rollbacks)
            self._index_manifests(old, new)
        if len(parts) == 2 or parts[2:] == ["tree"]:
            self.jobs.changed(index.name, self.store(store), self.tree(store))
        if parts[2:3] == ["tree"]:
            mark(self._to_trim, index.name, index.may_be_trimmed)
        if index.has_cleared:
            self._cleared[index.name] = None
        elif self._cleared:
            self._cleared.pop(store, None)

    def _index_path(self, index: StoreIndex, old: Record | None, new: Record | None) -> None:
        was = old if type(old) is TreePath else None
        is_ = new if type(new) is TreePath else None
        if index.path_changed(was, is_):
            mark(self._to_trim, index.name, index.may_be_trimmed)
        if is_ is not None:
            for blob in is_.blobs:
                self._count_blobs("", blob)
        if was is not None:
            for blob in was.blobs:
                self._count_blobs(blob, "")

    def _index_session(self, key: str, name: str, old: Record | None, new: Record | None) -> None:
        move(self._ended, ended_since(key, old), ended_since(key, new))
        self.session_index.session_changed(name, old, new)
        if isinstance(new, Session | Corrupt):
            self.sessions[name] = new
        else:
            self.sessions.pop(name, None)

    def _index_handle(self, key: str, name: str, index: StoreIndex, old: Record | None, new: Record | None) -> None:
        """Update the indexes of a handle. Loading calls this method for every handle, so it skips indexes that do not
        change.
        """
        was = old if type(old) is Handle else None
        is_ = new if type(new) is Handle else None
        if is_ is not None and is_.name == name:
            # use the name string of the record, so that the indexes keep no second copy of it in memory
            name = is_.name
        index.handle_changed(name, old, new)
        was_gone = (was.changed, key) if was is not None and was.gone else None
        is_gone = (is_.changed, key) if is_ is not None and is_.gone else None
        if was_gone != is_gone:
            move(self._gone, was_gone, is_gone)
        was_removing, is_removing = was is not None and was.removing, is_ is not None and is_.removing
        if was_removing is not is_removing:
            move(self._removing, key if was_removing else None, key if is_removing else None)
        self._count_blobs(was.blob if was is not None else "", is_.blob if is_ is not None else "")
        was_locked, is_locked = was.locks if was is not None else (), is_.locks if is_ is not None else ()
        if was_locked != is_locked:
            self.locks.handle_changed(index.name, name, was_locked, is_locked)

    def _index_store(self, index: StoreIndex, old: Record | None, new: Record | None) -> None:
        store, cleared = index.name, new.cleared if isinstance(new, Store) else 0
        if cleared != index.cleared:
            snapshot = self._newest()
            if snapshot is not None:
                snapshot.note_names(store, index.names)
            index.clear(cleared)
        self.session_index.store_changed(store, old, new)
        was = old.locked if isinstance(old, Store) else ()
        is_ = new.locked if isinstance(new, Store) else ()
        if was != is_:
            self.locks.store_changed(store, was, is_)

    def _count_blobs(self, old: str, new: str) -> None:
        if old == new:
            return
        if new:
            self._blobs[new] = self._blobs.get(new, 0) + 1
        if old:
            left = self._blobs[old] - 1
            if left:
                self._blobs[old] = left
            else:
                del self._blobs[old]

    def _count_unreadable(self, store: str, more: int) -> None:
        if more:
            count = self._unreadable.get(store, 0) + more
            if count:
                self._unreadable[store] = count
            else:
                del self._unreadable[store]

    def get(self, key: str) -> Record | None:
        """Return the committed record under ``key``; None if there is none."""
        return self.records.get(key)

    def snapshot(self) -> Snapshot:
        """Return a snapshot of all committed records, which shows them unchanged also after later changes."""
        newest = self._newest()
        if newest is not None and newest.is_current:
            return newest
        taken = Snapshot(self.get, self._names_of)
        if newest is not None:
            newest.newer = taken
        self._snapshot = weakref.ref(taken)
        return taken

    def _newest(self) -> Snapshot | None:
        return None if self._snapshot is None else self._snapshot()

    def _names_of(self, store: str) -> SortedList[str] | None:
        index = self._store_indexes.get(store)
        return index.names if index is not None else None

    def names(self, store: str, after: str = "") -> Iterator[str]:
        """Yield the names of a store's handles in a listing, sorted, beginning after the name ``after``."""
        names = self._names_of(store)
        return iter(names.irange(after, inclusive=(False, True)) if names else ())

    def count(self, store: str, cleared: int | None = None) -> int:
        """Return how many handles of a store a listing shows.

        If ``cleared`` is given, handles that were created up to this revision count as cleared.
        """
        index = self._store_indexes.get(store)
        if index is None:
            return 0
        return len(index.names) if cleared in (None, index.cleared) else index.count_above(cleared or 0)

    def damaged(self) -> Collection[str]:
        """Return the keys of all records that cannot be read: damaged ones, and those of a newer release."""
        return self._damaged.keys()

    def damaged_paths(self, store: str) -> Iterator[str]:
        """Yield the keys of the unreadable records of a tree. The paths of these records are unknown, since keys have
        only a hash of the path.
        """
        damaged = self.damaged() if self.has_unreadable(store) else ()
        return (key for key in damaged if key.startswith(path_keys(store)))

    def damaged_in(self, store: str) -> Iterable[str]:
        """Return the names of a store's handles whose records cannot be read."""
        index = self._store_indexes.get(store)
        return index.damaged if index is not None else ()

    def stores(self, after: str = "") -> Iterator[str]:
        """Yield the names of the stores, sorted, beginning after the name ``after``."""
        return iter(self._store_indexes.irange(after, inclusive=(False, True)))

    def names_blob(self, store: str, blob: str) -> bool:
        """Return whether a handle, a pending upload or the tree of a store names the blob.

        Raises `ManifestsNotLoaded` while manifests of the tree are not in memory, since the answer is then unknown.
        """
        return blob in self._blobs or any(rows.may_name(blob) for rows in self.manifests(store))

    def times_named(self, blob: str) -> int:
        """Return how often handles, pending uploads, records of paths and records of trees name the blob."""
        return self._blobs.get(blob, 0)

    def _index_manifests(self, old: Record | None, new: Record | None) -> None:
        was = {manifest.blob for manifest in old.manifests} if isinstance(old, Tree) else set()
        is_ = {manifest.blob for manifest in new.manifests} if isinstance(new, Tree) else set()
        for blob in is_ - was:
            self._count_blobs("", blob)
        for blob in was - is_:
            self._count_blobs(blob, "")
            self.held.pop(blob, None)

    def count_unreadable(self, store: str) -> int:
        """Return how many records of the store cannot be read: damaged ones, and those of a newer release."""
        index = self._store_indexes.get(store)
        return self._unreadable.get(store, 0) + (index.damaged_pages if index is not None else 0)

    def has_unreadable(self, store: str) -> bool:
        """Return whether the store has a record that cannot be read: damaged, or of a newer release. Pages of its
        history do not count, since they name neither blobs nor paths.
        """
        return store in self._unreadable

    def has_store(self, store: str) -> bool:
        """Return whether there is a record of the store itself, or of its tree, or a handle in a listing."""
        return self.store(store) is not None or self.tree(store) is not None or self.count(store) > 0

    def history_pages(self, store: str, log: str) -> list[int]:
        """Return the numbers of the pages of a log of the store's history, the oldest first, with those that cannot be
        read.
        """
        index = self._store_indexes.get(store)
        return list(index.history.get(log, ())) if index is not None else []

    def removing(self, after: str = "") -> Iterator[str]:
        """Yield the keys of handles whose removal has begun, sorted, beginning after the key ``after``."""
        return iter(self._removing.irange(after, inclusive=(False, True)))

    def gone(self, until: int, after: Aged = (0, "")) -> Iterator[Aged]:
        """Yield the handles and uploads that are gone, whose records are kept only to answer retries: the revision from
        which the age of the record counts, and its key. The oldest come first.

        The revisions are at most ``until``, and the pairs come after the pair ``after``.
        """
        return iter(self._gone.irange(after, (until, _LAST), inclusive=(False, True)))

    def ended(self, until: int, after: Aged = (0, "")) -> Iterator[Aged]:
        """Yield the sessions that ended at or before revision ``until``, the oldest first: the revision of the end, and
        the key. The pairs come after the pair ``after``.
        """
        return iter(self._ended.irange(after, (until, _LAST), inclusive=(False, True)))

    def stores_with_cleared(self, after: str = "") -> list[str]:
        """Return the names of the stores that sort after ``after`` and still have records of cleared handles, which
        wait to be dropped.
        """
        return [store for store in self._cleared if store > after]

    def cleared(self, store: str, until: int) -> Iterator[str]:
        """Yield the keys of records of cleared handles, the oldest first.

        Yields nothing unless the store was cleared at or before revision ``until``.
        """
        index = self._store_indexes.get(store)
        if index is None or index.cleared > until:
            return iter(())
        return (handle_key(store, name) for name in index.cleared_names())

    def has_cleared(self, store: str) -> bool:
        """Return whether the store still has records of cleared handles."""
        index = self._store_indexes.get(store)
        return index is not None and index.has_cleared

    def pending_uploads(self) -> Iterator[tuple[str, Upload]]:
        """Yield the uploads that are pending, each after the name of its store."""
        for store, index in self._store_indexes.items():
            for key in index.pending:
                upload = self.records[key]
                assert isinstance(upload, Upload)
                yield store, upload

    def count_uploads(self, store: str) -> int:
        """Return how many uploads are pending in a store."""
        index = self._store_indexes.get(store)
        return len(index.pending) if index is not None else 0


def scopes(key: str, record: Record | None) -> Sequence[KeyScope]:
    """Return what identifies each request whose answer the record under ``key`` keeps: store, session and idempotency
    key.
    """
    if record is None or type(record) is Corrupt or not record.answered:
        return ()
    store = store_of_path_key(key) if type(record) is TreePath else store_of(key) or ""
    return [(store, entry.session, entry.key) for entry in record.answered]
