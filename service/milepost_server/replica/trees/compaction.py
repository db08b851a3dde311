"""The leader's maintenance of manifests: compact records that have not changed for long into a manifest, and merge
manifests.

No step changes the visible files. The work may be interrupted after any step, and is then begun again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from milepost.errors import Problem
from milepost.wire import Outcome
from milepost_backends.contract import BackendError, BlobStore
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.pieces import stream_of
from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.blobs.keys import blob_key
from milepost_server.journal import Journal
from milepost_server.memory.lookup import ManifestsNotLoaded
from milepost_server.memory.state import State
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.requests.base import LEADER
from milepost_server.model.requests.trees import BeginCompaction, CompactTree, DropBlobs, DropCompacted
from milepost_server.model.trees import Tree, TreePath
from milepost_server.replica.settings import Settings
from milepost_server.replica.submitter import Reply, commit
from milepost_server.replica.trees.manifests import Manifests
from milepost_server.rules.trees.manifests import first_to_merge, is_compactable, merged, no_longer_named, packed

log = logging.getLogger("milepost.maintenance")

_MOST_ROWS = 5_000
"""The most records in a new manifest. A merge of manifests makes larger ones."""

_BATCH = 100
"""The most compacted records that one commit drops."""

_DISCARDED = 500
"""The most blobs that one commit deletes after a merge of manifests."""


class Compaction:
    """Compacts the trees of a journal, one after the other."""

    def __init__(
        self,
        journal: Journal,
        blobs: BlobStore,
        manifests: Manifests,
        deletions: DeletionQueue,
        loop_time: LoopTimeBudget,
        clock: Callable[[], float],
        settings: Settings,
    ) -> None:
        self._journal = journal
        self._blobs = blobs
        self._manifests = manifests
        self._deletions = deletions
        self._loop_time = loop_time
        self._clock = clock
        self._settings = settings

    async def run(self) -> None:
        """Compact all trees at intervals, until cancelled."""
        interval = self._settings.maintenance_interval_seconds
        while True:
            await asyncio.sleep(interval)
            for store in await self._due(self._state()) if self._journal.lease_holds() else ():
                try:
                    await self.compact(store)
                except (Problem, BackendError, ManifestsNotLoaded) as error:
                    log.warning("cannot compact the tree of %s, trying again in %s s: %s", store, interval, error)

    async def _due(self, state: State) -> list[str]:
        """Return the names of the stores whose trees may have records to compact or manifests to merge, usually few."""
        due: list[str] = []

        def judge(store: str) -> None:
            if state.may_be_compacted(store, self._settings.compact_from):
                due.append(store)

        await self._loop_time.each_after(state.stores, "", judge)
        return due

    async def compact(self, store: str) -> None:
        """Compact the records of a tree that are old enough, then merge manifests if that is due. Raises `Problem` or
        `BackendError` if that fails; it is tried again later.
        """
        await self._manifests.ready(store)
        if len(await self._compactable(store)) >= self._settings.compact_from:
            begun = await self._commit(BeginCompaction(LEADER, store))
            records = await self._compactable(store)
            await self._add(store, records, begun.answer.body["begun"])
            for at in range(0, len(records), _BATCH):
                paths = tuple(record.path for record in records[at : at + _BATCH])
                await self._commit(DropCompacted(LEADER, store, paths))
        tree = self._state().tree(store)
        if isinstance(tree, Tree) and not tree.rollbacks and (first := first_to_merge(tree)) is not None:
            await self._merge(store, tree, first)

    async def _compactable(self, store: str) -> list[TreePath]:
        """Return the records that may be compacted, sorted by path."""
        until = self._journal.revision_before(self._settings.compact_after_seconds)
        tree = self._state().tree(store) or Tree(store)
        if not isinstance(tree, Tree) or tree.rollbacks:
            return []  # some records do not reflect the tree's rollbacks yet, and must not be compacted
        found: list[TreePath] = []

        def judge(record: TreePath) -> bool:
            if is_compactable(record, until, tree):
                found.append(record)
            return len(found) == _MOST_ROWS

        await self._loop_time.each_after(lambda last: self._state().own_paths(store, last.path), TreePath(""), judge)
        return found

    async def _add(self, store: str, records: list[TreePath], begun: int) -> None:
        pack, blob = self._key(store), self._key(store)
        compacted, content = packed(records, pack)
        rows = await asyncio.to_thread(ManifestRows.of, compacted)
        manifest = await asyncio.to_thread(rows.manifest, blob)
        if content:
            await self._blobs.put(pack, stream_of(content))
        await self._install(CompactTree(LEADER, store, (), manifest, begun), rows, *([pack] if content else []))

    async def _merge(self, store: str, tree: Tree, first: int) -> None:
        several = self._state().manifests(store)[first:]
        rows, gone = await asyncio.to_thread(_merged, several, tree, first == 0)
        replaced = tuple(manifest.blob for manifest in tree.manifests[first:])
        manifest = await asyncio.to_thread(rows.manifest, self._key(store))
        await self._install(CompactTree(LEADER, store, replaced, manifest, 0, tree.savepoints), rows)
        log.info("merged %d manifests of the tree of %s into one with %d paths", len(several), store, len(rows))
        for at in range(0, len(gone), _DISCARDED):
            await self._commit(DropBlobs(LEADER, store, gone[at : at + _DISCARDED]))

    async def _install(self, request: CompactTree, rows: ManifestRows, *packs: str) -> None:
        """Put a manifest into the blob store, and add it to the record of the tree. ``packs`` are the blobs with the
        bytes of small files that the manifest names; they are deleted if the request certainly fails.
        """
        assert request.manifest is not None
        blob, state = request.manifest.blob, self._state()
        await self._blobs.put(blob, stream_of(rows.content))
        with state.holding(blob, rows):
            try:
                await self._commit(request)
            except Problem as error:
                if error.outcome is Outcome.NOT_APPLIED:
                    for unused in (blob, *packs):
                        await self._deletions.try_delete(unused)
                raise

    async def _commit(self, request: BeginCompaction | CompactTree | DropCompacted | DropBlobs) -> Reply:
        return await commit(self._journal, request, self._clock)

    def _key(self, store: str) -> str:
        return blob_key(self._journal.deployment, store, self._journal.term)

    def _state(self) -> State:
        return self._journal.state()


def _merged(several: list[ManifestRows], tree: Tree, with_oldest: bool) -> tuple[ManifestRows, tuple[str, ...]]:
    rows = ManifestRows.of(merged(several, tree, with_oldest=with_oldest))
    return rows, no_longer_named(several, rows)
