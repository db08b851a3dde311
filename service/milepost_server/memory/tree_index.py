"""The part of the state in memory that is about trees: paths in order, including those in manifests, and the entries
that maintenance may drop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sortedcontainers import SortedDict

from milepost_server.memory.indexes import StoreIndex
from milepost_server.memory.lookup import Lookup
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.paths import LAST, path_key
from milepost_server.model.records import Record
from milepost_server.model.trees import Manifest, Tree, TreePath


class TreeIndex(Lookup):
    """Looks up the paths of trees in the committed records, and in the manifests that are in memory."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self._store_indexes: SortedDict[str, StoreIndex] = SortedDict()
        self._blobs: dict[str, int] = {}
        self.held: dict[str, ManifestRows] = {}
        self._to_trim: dict[str, None] = {}

    def hold(self, blob: str, rows: ManifestRows) -> None:
        """Keep the rows of a manifest in memory for as long as the record of a tree names it."""
        self.held[blob] = rows

    @contextmanager
    def holding(self, blob: str, rows: ManifestRows) -> Iterator[None]:
        """Keep the rows of a manifest in memory while the context lasts, and afterwards as `hold` does.

        So a decision inside the context finds the rows. If afterwards no record of a tree names the manifest, the rows
        are dropped.
        """
        self.hold(blob, rows)
        try:
            yield
        finally:
            if blob not in self._blobs:
                self.held.pop(blob, None)

    def path_after(self, store: str, path: str, manifests: Sequence[ManifestRows] | None = None) -> str | None:
        """Return the first path after ``path`` that has a record, its own or in a manifest; None if there is none.

        ``manifests`` are the manifests to search; None means those of the tree. Raises `ManifestsNotLoaded`.
        """
        index = self._store_indexes.get(store)
        if index is None:
            return None
        own = next(index.paths.irange(path, inclusive=(False, True)), None)
        rows = self.manifests(store) if manifests is None else manifests
        found = [own, *(each.after(path) for each in rows)]
        return min((each for each in found if each is not None), default=None)

    def paths(
        self, store: str, directory: str, after: str = "", manifests: Sequence[ManifestRows] | None = None
    ) -> Iterator[str]:
        """Yield the paths below a directory that have a record, sorted, beginning after the path ``after``.

        ``manifests`` are the manifests to search; None means those of the tree. Raises `ManifestsNotLoaded`.
        """
        before = f"{directory}/" if directory else ""
        path = self.path_after(store, max(before, after), manifests)
        while path is not None and path.startswith(before):
            yield path
            path = self.path_after(store, path, manifests)

    def children(self, store: str, directory: str, after: str = "") -> Iterator[str]:
        """Yield the paths directly in a directory that have a record, sorted, beginning after the path ``after``.

        Raises `ManifestsNotLoaded`.
        """
        before = f"{directory}/" if directory else ""
        path: str | None = max(after, before)
        while path is not None:
            path = self.path_after(store, path)
            if path is None or not path.startswith(before):
                return
            child, below, _ = path[len(before) :].partition("/")
            if below:
                path = f"{before}{child}/{LAST}"  # continue with the first path after all paths below this child
            else:
                yield path

    def own_paths(self, store: str, after: str = "") -> Iterator[TreePath]:
        """Yield the records that paths of a tree have outside of manifests, sorted by path, beginning after the path
        ``after``.
        """
        index = self._store_indexes.get(store)
        for path in index.paths.irange(after, inclusive=(False, True)) if index is not None else ():
            record = self.records[path_key(store, path)]
            if isinstance(record, TreePath):
                yield record

    def may_be_compacted(self, store: str, least: int) -> bool:
        """Return whether at least ``least`` paths of a store's tree have records outside of manifests, or a manifest
        has rows that nothing needs any more.
        """
        tree = self.tree(store)
        return len(self._store_indexes[store].paths) >= least or (isinstance(tree, Tree) and tree.stale)

    def unloaded(self, store: str) -> list[Manifest]:
        """Return those manifests of a store's tree whose rows are not in memory."""
        tree = self.tree(store)
        named = tree.manifests if type(tree) is Tree else ()
        return [manifest for manifest in named if manifest.blob not in self.held] if named else []

    def stores_to_trim(self) -> list[str]:
        """Return the names of the stores whose trees may have entries, tombstones or rollbacks that maintenance can
        drop.
        """
        return list(self._to_trim)

    def dead_paths(self, store: str, after: tuple[int, str], until: int) -> Iterator[tuple[int, str]]:
        """Yield a pair for each deleted entry of a store's tree, in order: its deletion revision and its path. The
        pairs come after the pair ``after``, and their revisions are at most ``until``.
        """
        index = self._store_indexes.get(store)
        return index.deleted.irange(after, (until, LAST), (False, True)) if index is not None else iter(())

    def temporary_files(self, store: str, after: tuple[int, str], until: int) -> Iterator[tuple[int, str]]:
        """Yield a pair for each file under a temporary name, in order: its creation revision and its path. The pairs
        come after the pair ``after``, and their revisions are at most ``until``.
        """
        index = self._store_indexes.get(store)
        return index.temporary_files.irange(after, (until, LAST), (False, True)) if index is not None else iter(())
