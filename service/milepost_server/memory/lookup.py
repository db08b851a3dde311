"""The interface for looking up records: in the committed state, in a view that adds the changes in flight, or in the
committed state as it was at an earlier revision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeGuard

from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.paths import path_key
from milepost_server.model.records import (
    Corrupt,
    Handle,
    Record,
    Session,
    Store,
    Upload,
    handle_key,
    session_key,
    store_key,
    tree_key,
    upload_key,
)
from milepost_server.model.trees import Tree, TreePath


class ManifestsNotLoaded(LookupError):
    """Raised when a path is looked up in a tree whose manifests are not all in memory, so that the path's record is
    unknown.
    """


class Lookup(ABC):
    """Looks up records by key, or by the name of the session, store, handle or path that they describe. ``held`` has
    the rows of the manifests that are in memory.
    """

    held: Mapping[str, ManifestRows] = MappingProxyType({})

    @abstractmethod
    def get(self, key: str) -> Record | None:
        """Return the record under ``key``; None if there is none."""

    def session(self, session: str) -> Session | Corrupt | None:
        """Return a session's record: None if there is none, `Corrupt` if it cannot be read."""
        record = self.get(session_key(session))
        return record if record is None or isinstance(record, (Session, Corrupt)) else None

    def store(self, store: str) -> Store | Corrupt | None:
        """Return a store's own record: None if there is none, `Corrupt` if it cannot be read."""
        record = self.get(store_key(store))
        if type(record) is Store or type(record) is Corrupt:
            return record
        return None

    def store_or_new(self, store: str) -> Store:
        """Return a store's own record, or a new one if the store has none or its record is damaged."""
        record = self.get(store_key(store))
        return record if type(record) is Store else Store(store)

    def acting_session(self, session: str) -> Session:
        """Return the record of the session that makes a request. The caller must have checked that the session lives
        (`milepost_server.rules.guards.session_lives`).
        """
        record = self.session(session)
        assert isinstance(record, Session)
        return record

    def handle(self, store: str, name: str) -> Handle | Corrupt | None:
        """Return a handle's record: None if there is none, `Corrupt` if it cannot be read."""
        record = self.get(handle_key(store, name))
        return record if record is None or isinstance(record, (Handle, Corrupt)) else None

    def upload(self, store: str, upload: str) -> Upload | Corrupt | None:
        """Return an upload's record: None if there is none, `Corrupt` if it cannot be read."""
        record = self.get(upload_key(store, upload))
        return record if record is None or isinstance(record, (Upload, Corrupt)) else None

    def tree(self, store: str) -> Tree | Corrupt | None:
        """Return the record that describes a store's tree as a whole: None if there is none, `Corrupt` if it cannot be
        read.
        """
        record = self.get(tree_key(store))
        if type(record) is Tree or type(record) is Corrupt:
            return record
        return None

    def rows(self, blob: str) -> ManifestRows | None:
        """Return the rows of the manifest in the blob ``blob``; None while they are not in memory."""
        return self.held.get(blob)

    def path(self, store: str, path: str) -> TreePath | Corrupt | None:
        """Return the record of a path in a store's tree: the path's own record, or else its row in the newest manifest
        that has one. None if there is neither, `Corrupt` if the path's own record cannot be read.

        Raises `ManifestsNotLoaded`.
        """
        record = self.get(path_key(store, path))
        return record if record is not None and isinstance(record, (TreePath, Corrupt)) else self.compacted(store, path)

    def compacted(self, store: str, path: str) -> TreePath | None:
        """Return the record of a path in the newest manifest that has a row for it; None if no manifest has one. Raises
        `ManifestsNotLoaded`.
        """
        tree = self.tree(store)
        if tree is None or type(tree) is Corrupt or not tree.manifests:
            return None
        for rows in reversed(self.manifests(store)):
            if (record := rows.get(path)) is not None:
                return record
        return None

    def manifests(self, store: str) -> list[ManifestRows]:
        """Return the rows of all manifests of a store's tree, the oldest first. Raises `ManifestsNotLoaded`."""
        tree = self.tree(store)
        named = tree.manifests if type(tree) is Tree else ()
        return [self._loaded(manifest.blob) for manifest in named]

    def _loaded(self, blob: str) -> ManifestRows:
        rows = self.rows(blob)
        if rows is None:
            raise ManifestsNotLoaded(f"the manifest {blob} is not in memory")
        return rows


def is_pending(record: Record | None) -> TypeGuard[Upload]:
    """Return whether the record is an upload that no handle has taken yet, and that has not expired."""
    return isinstance(record, Upload) and not record.ended


def is_listed(record: Record | None, cleared: int) -> bool:
    """Return whether a listing shows this record, in a store that was cleared at revision ``cleared``, 0 for never.

    A listing does not show a handle that is gone or was created before the clear; its record is kept only for retries.
    """
    return isinstance(record, Corrupt) or (
        isinstance(record, Handle) and not record.gone and record.created_revision > cleared
    )
