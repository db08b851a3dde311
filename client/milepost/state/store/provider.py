"""The provider of a state store whose versions are stored as files."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile

from milepost.state.errors import InvalidUse, StateDamaged, VersionNotFound
from milepost.state.store.cleaning import clean
from milepost.state.store.contract.stores import ReadStateStore, StateStore, StateStoreProvider
from milepost.state.store.contract.values import DEFAULT_FAMILY, Change, StateStoreId
from milepost.state.store.files.contract import StateFiles
from milepost.state.store.format.heads import Commit, SnapshotHead
from milepost.state.store.format.names import Kind, StateFileName, is_pin_name
from milepost.state.store.history import History, Listing, changes_of
from milepost.state.store.loaded_stores import LoadedStores
from milepost.state.store.loading import Loaded, VersionCache, follow, plan
from milepost.state.store.maintenance import MAINTENANCE
from milepost.state.store.merging import make_snapshot
from milepost.state.store.ranges import RangeReader
from milepost.state.store.reading_store import FileReadStore
from milepost.state.store.rows import Families
from milepost.state.store.settings import ProviderSettings
from milepost.state.store.writing_store import METRICS, Committer, FileStateStore

_log = logging.getLogger(__name__)
_MOST_LINEAGE = 100
_MOST_MERGED = 100
"""The most commits that one merge reads: each needs up to a megabyte of memory during the merge."""


class FileStateStoreProvider(StateStoreProvider):
    """Stores the versions of one state store as files: a commit contains the changes of a version, a run the merged
    changes of several commits, and a snapshot lists the runs that together are the state of a version.
    """

    def __init__(
        self,
        files: StateFiles,
        settings: ProviderSettings | None = None,
        loaded_stores: LoadedStores | None = None,
    ) -> None:
        """``files`` stores the files; each state store has its own directory there.

        ``loaded_stores`` is the registry of all state stores that this process has loaded; it is necessary only if
        other executors may load the same store as well.
        """
        self._files = files
        self._loaded_stores = loaded_stores
        self._settings = settings or ProviderSettings()
        self._versions = VersionCache(self._settings.idle_engines)
        self._merging = threading.Lock()
        self._cleaning = threading.Lock()
        self._newest: Commit | None = None
        self._snapshots: set[Commit] = set()
        self._opened: History | None = None
        self._first = Families()

    def init(self, store_id: StateStoreId, *, multiple_values_per_key: bool = False) -> None:
        if self._opened is not None:
            raise InvalidUse(f"this provider is that of {self._opened.store.directory} already")
        self._first = Families.first(multiple=multiple_values_per_key)
        self._opened = History(self._files, store_id)
        if self._settings.maintenance_interval is not None:
            MAINTENANCE.add(self, self._settings.maintenance_interval)

    @property
    def state_store_id(self) -> StateStoreId:
        return self._history.store

    @property
    def _history(self) -> History:
        if self._opened is None:
            raise InvalidUse("this provider has no store yet: init says which")
        return self._opened

    def get_store(self, version: int, id: str | None = None) -> StateStore:
        return self._to_write(self._load(version, id))

    def get_read_store(self, version: int, id: str | None = None) -> ReadStateStore:
        listing, commit = self._find(version, id)
        loaded = self._versions.join(commit)
        if loaded is None:
            loaded = self._bring(listing, commit)
            self._versions.share(loaded)
        self._report()
        return FileReadStore(self._history.store, loaded, self._versions.put_back)

    def get_range_reader(self, version: int, id: str | None = None) -> RangeReader:
        """Return a reader that reads ranges of keys of a version from its files, without loading the version. Raises
        the errors of `get_read_store`.
        """
        listing, commit = self._find(version, id)
        if commit is None:
            return RangeReader(self._history, self._first, None, {})
        head, opened = self._history.open_delta(commit)
        way = plan(self._history, listing, commit, lambda _: None)
        return RangeReader(self._history, head.families, way, {commit[1]: opened})

    def id_of(self, version: int, later: Commit) -> str:
        """Return the id of the commit with the number ``version`` that precedes the commit ``later``, a version and an
        id.

        Raises `VersionNotFound`, `StateDamaged`.
        """
        if not 1 <= version <= later[0]:
            raise InvalidUse(f"version {version} is none of those that led to version {later[0]}")
        return next(id for one, id in self._history.lineage(later) if one == version)

    def upgrade_read_store_to_write_store(self, store: ReadStateStore) -> StateStore:
        if not isinstance(store, FileReadStore) or isinstance(store, FileStateStore) or store.id != self.state_store_id:
            raise InvalidUse("only a store that this provider opened for reading can be upgraded")
        commit = store.commit_read
        store.release()
        return self._to_write(self._load(*commit) if commit else self._load(0, None))

    def latest_version(self) -> int:
        return max(self._list().commits, default=0)

    def replay_state_from_snapshot(self, snapshot_version: int, end_version: int, id: str | None = None) -> StateStore:
        return self._to_write(self._load(end_version, id, snapshot_version))

    def replay_read_state_from_snapshot(
        self, snapshot_version: int, end_version: int, id: str | None = None
    ) -> ReadStateStore:
        loaded = self._load(end_version, id, snapshot_version)
        self._versions.share(loaded)
        return FileReadStore(self._history.store, loaded, self._versions.put_back)

    def changes(
        self, start_version: int, end_version: int, *, id: str | None = None, family: str | None = None
    ) -> Iterator[Change]:
        if not 1 <= start_version <= end_version:
            raise InvalidUse(f"no versions are from {start_version} to {end_version}: the first is 1")
        _, commit = self._find(end_version, id)
        assert commit is not None
        commits = list(takewhile(lambda one: one[0] >= start_version, self._history.lineage(commit)))
        return changes_of(self._history, commits[::-1], family)

    def pin(self, name: str, version: int, id: str | None = None) -> None:
        if not is_pin_name(name):
            raise InvalidUse("the name of a pin has 1 to 100 of the characters A-Z a-z 0-9 -")
        with self._cleaning:
            listing, commit = self._find(version, id)
            if commit is None:
                raise InvalidUse("version 0 is empty, and needs no pin")
            if name in listing.pins:
                raise InvalidUse(f"there is a pin {name} already, of version {listing.pins[name][0].version}")
            file = StateFileName(Kind.PIN, *commit, name)
            self._files.create(self._history.path(file), b"pinned\n")
            try:
                # Check again after the pin is stored: a clean-up that ran at the same time may not have seen the pin.
                plan(self._history, self._list(), commit, lambda _: None)
            except (VersionNotFound, StateDamaged):
                self._files.delete(self._history.path(file))
                raise

    def unpin(self, name: str) -> None:
        for file in self._list().pins.get(name, ()):
            self._files.delete(self._history.path(file))

    def do_maintenance(self) -> None:
        if self._loaded_stores is not None and not self._loaded_stores.are_ours(self):
            self.unload()
            return
        self.do_snapshot_maintenance()
        self.do_cleanup_maintenance()

    def do_snapshot_maintenance(self) -> None:
        with self._merging:
            if self._newest is None:
                return
            before, deltas = self._since_snapshot(self._list(), self._newest)
            while len(deltas) >= self._settings.min_deltas_for_snapshot:
                before = self._make_snapshot(before, deltas[:_MOST_MERGED])
                deltas = deltas[_MOST_MERGED:]

    def do_cleanup_maintenance(self) -> None:
        with self._cleaning:
            if self._newest is not None:
                kept = self._settings.versions_to_keep
                clean(self._history, self._newest, keep=kept, grace=self._settings.grace)

    @property
    def supported_custom_metrics(self) -> frozenset[str]:
        return METRICS

    def unload(self) -> None:
        """Unload the loaded versions that are not in use, since another executor continues with this state store
        (Spark's ``unload``).

        The provider remains usable, and loads versions again when they are opened.
        """
        self._versions.clear()

    def close(self) -> None:
        MAINTENANCE.remove(self)
        self._versions.close()
        if self._loaded_stores is not None and self._opened is not None:
            self._loaded_stores.closed(self)

    def _report(self) -> None:
        if self._loaded_stores is not None:
            self._loaded_stores.opened(self)

    def _list(self) -> Listing:
        listing = self._history.list()
        self._snapshots = set(listing.snapshots)
        return listing

    def _find(self, version: int, id: str | None) -> tuple[Listing, Commit | None]:
        if version < 0 or (version == 0 and id is not None):
            raise InvalidUse(f"no version is {version} with the id {id}" if id else f"no version is {version}")
        listing = self._list()
        return listing, self._history.find(listing, version, id) if version else None

    def _load(self, version: int, id: str | None, snapshot_version: int | None = None) -> Loaded:
        listing, commit = self._find(version, id)
        return self._bring(listing, commit, snapshot_version)

    def _bring(self, listing: Listing, commit: Commit | None, snapshot_version: int | None = None) -> Loaded:
        """Load the version of a commit (None for version 0) for the caller's exclusive use, or take it from the cache.
        With ``snapshot_version``, load it from the snapshot of that version.
        """
        if commit is None:
            return self._versions.take(None) or Loaded(self._settings.engines(), None, self._first)
        way = plan(self._history, listing, commit, self._versions.take, snapshot_version)
        loaded = way.loaded or Loaded(self._settings.engines(), None, self._first)
        if loaded.commit == commit:
            return loaded
        try:
            follow(self._history, way, commit, loaded)
        finally:
            if loaded.broken:
                self._versions.put_back(loaded)
        return loaded

    def _to_write(self, loaded: Loaded) -> StateStore:
        if loaded.families.named(DEFAULT_FAMILY).multiple != self._first.named(DEFAULT_FAMILY).multiple:
            self._versions.put_back(loaded)
            raise InvalidUse("the default column family of this store is of the other kind")
        self._report()
        return FileStateStore(self._history.store, loaded, self._put_back, Committer(self._history, self._lineage_of))

    def _put_back(self, loaded: Loaded) -> None:
        if loaded.commit is not None and not loaded.broken:
            self._newest = loaded.commit
        self._versions.put_back(loaded)

    def _lineage_of(self, loaded: Loaded) -> tuple[Commit, ...]:
        """Return the loaded commit and its predecessors, newest first, back to one that has a snapshot. The result is
        shorter if a commit is missing, or after `_MOST_LINEAGE` commits.
        """
        found: list[Commit] = []
        if loaded.commit is not None:
            with suppress(VersionNotFound, StateDamaged):
                for commit in self._history.lineage(loaded.commit):
                    found.append(commit)
                    if commit in self._snapshots or len(found) == _MOST_LINEAGE:
                        break
        return tuple(found)

    def _make_snapshot(self, before: SnapshotHead | None, deltas: list[Commit]) -> SnapshotHead:
        head, size = make_snapshot(
            self._history,
            before,
            deltas,
            merge_after=self._settings.merge_after,
            ratio=self._settings.merge_ratio,
            part_bytes=self._settings.part_bytes,
        )
        self._snapshots.add((head.version, head.id))
        directory = self._history.store.directory
        if self._loaded_stores is not None:
            self._loaded_stores.snapshot_made(self, head.version)
        _log.info("a snapshot of version %d of %s was made, %d bytes written", head.version, directory, size)
        return head

    def _since_snapshot(self, listing: Listing, newest: Commit) -> tuple[SnapshotHead | None, list[Commit]]:
        way = plan(self._history, listing, newest, lambda _: None)
        return way.snapshot, list(way.deltas)
