"""The leader's manifests of trees: each is loaded when its tree is first used, and its stored bytes are checked from
then on.

If the stored bytes are damaged, the manifest is written again from memory. Only this leader, which has the rows in
memory, can do that. Without the repair, the next leader could not read the tree.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from milepost_backends.contract import BackendError, BlobStore
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.pieces import stream_of
from milepost_server.basics.problems import problem
from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.blobs.delivery import DeliveryCut, deliver
from milepost_server.blobs.keys import blob_key
from milepost_server.journal import Journal
from milepost_server.memory.state import State
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.requests.base import LEADER, BlobRef
from milepost_server.model.requests.trees import CompactTree
from milepost_server.model.trees import Manifest, Tree
from milepost_server.replica.submitter import commit

log = logging.getLogger("milepost.maintenance")


class Manifests:
    """The manifests of the trees of a journal. If several requests wait for a manifest, it is read only once.

    A new leader begins with no manifest in memory, so the number of files does not delay a take-over.
    """

    def __init__(self, journal: Journal, blobs: BlobStore) -> None:
        self._journal = journal
        self._blobs = blobs
        self._reading: dict[str, asyncio.Task[ManifestRows]] = {}

    async def ready(self, store: str) -> None:
        """Wait until all manifests of a store's tree are in memory.

        Raises `Problem`: ``corrupt`` if one is damaged or gone, ``storage-unavailable``, ``no-leader``.
        """
        while missing := self._journal.state().unloaded(store):
            rows = await self._rows(store, missing[0])
            state = self._journal.state()
            # no problem if the manifest was merged into another one while it was being loaded
            if missing[0] in state.unloaded(store):
                state.hold(missing[0].blob, rows)

    async def _rows(self, store: str, manifest: Manifest) -> ManifestRows:
        task = self._reading.get(manifest.blob)
        if task is None:
            task = self._reading[manifest.blob] = asyncio.create_task(self._read(store, manifest))
            task.add_done_callback(lambda _: self._reading.pop(manifest.blob, None))
        return await asyncio.shield(task)

    async def _read(self, store: str, manifest: Manifest) -> ManifestRows:
        damaged = f"the manifest {manifest.blob}, which says what is in the tree of {store!r}, is damaged"
        ref = BlobRef(manifest.blob, manifest.size, manifest.sha256)
        try:
            content = b"".join([chunk async for chunk in await deliver(self._blobs, ref)])
            return await asyncio.to_thread(ManifestRows, content)
        except (DeliveryCut, ValueError) as error:
            raise problem(Code.CORRUPT, f"{damaged}: {error}") from error
        except Problem as error:
            if error.code is Code.BLOB_MISSING:
                raise problem(Code.CORRUPT, f"{damaged}: it is gone") from error
            if error.code is Code.CORRUPT:
                raise problem(Code.CORRUPT, f"{damaged}: {error.detail}") from error
            raise


class ManifestCheck:
    """Checks the stored bytes of the manifests that are in memory, one manifest after the other."""

    def __init__(
        self,
        journal: Journal,
        blobs: BlobStore,
        deletions: DeletionQueue,
        loop_time: LoopTimeBudget,
        clock: Callable[[], float],
    ) -> None:
        self._journal = journal
        self._blobs = blobs
        self._deletions = deletions
        self._loop_time = loop_time
        self._clock = clock

    async def run(self, interval: float) -> None:
        """Check all manifests that are in memory at intervals, until cancelled."""
        while True:
            await asyncio.sleep(interval)
            if not self._journal.lease_holds():
                continue
            for store in await self._held():
                try:
                    await self.check(store)
                except (Problem, BackendError) as error:
                    log.warning("cannot check the manifests of %s, trying again in %s s: %s", store, interval, error)

    async def _held(self) -> list[str]:
        """Return the names of the stores whose trees have a manifest in memory."""
        state = self._state()
        held: list[str] = []

        def judge(store: str) -> None:
            tree = state.tree(store)
            manifests = tree.manifests if isinstance(tree, Tree) else ()
            if any(state.rows(manifest.blob) is not None for manifest in manifests):
                held.append(store)

        await self._loop_time.each_after(state.stores, "", judge)
        return held

    async def check(self, store: str) -> None:
        """Check the stored bytes of those manifests of a tree that are in memory, and write damaged ones again from
        memory. Raises `Problem` or `BackendError` if a storage does not answer.
        """
        tree = self._state().tree(store)
        for manifest in tree.manifests if isinstance(tree, Tree) else ():
            rows = self._state().rows(manifest.blob)
            if rows is not None and (damage := await self._damage(manifest)) is not None:
                await self._write_anew(store, manifest, rows, damage)

    async def _damage(self, manifest: Manifest) -> str | None:
        """Return what is wrong with the stored bytes of a manifest; None if they are intact."""
        try:
            async for _ in await deliver(self._blobs, BlobRef(manifest.blob, manifest.size, manifest.sha256)):
                pass
        except DeliveryCut as error:
            return str(error)
        except Problem as error:
            if error.code not in (Code.CORRUPT, Code.BLOB_MISSING):
                raise
            return error.detail
        return None

    async def _write_anew(self, store: str, damaged: Manifest, rows: ManifestRows, why: str) -> None:
        """Put the rows of a damaged manifest into a new blob, and make the tree refer to that blob, unless a merge has
        replaced the manifest meanwhile.
        """
        log.error("the manifest %s of the tree of %s is damaged: %s; writing it anew", damaged.blob, store, why)
        if await asyncio.to_thread(_digest, rows) != damaged.sha256:
            log.error("the manifest %s is damaged in memory as well, and is left as it is", damaged.blob)
            return
        state = self._state()
        key = blob_key(self._journal.deployment, store, self._journal.term)
        anew = await asyncio.to_thread(rows.manifest, key)
        await self._blobs.put(anew.blob, stream_of(rows.content))
        with state.holding(anew.blob, rows):
            try:
                await commit(self._journal, CompactTree(LEADER, store, (damaged.blob,), anew), self._clock)
            except Problem as error:
                if error.outcome is Outcome.NOT_APPLIED:
                    await self._deletions.try_delete(anew.blob)
                raise
        tree = state.tree(store)
        if isinstance(tree, Tree) and anew.blob not in [manifest.blob for manifest in tree.manifests]:
            # a merge has replaced the damaged manifest meanwhile, so delete the new blob
            await self._deletions.try_delete(anew.blob)
            return
        log.info("the manifest %s of the tree of %s is whole again, as %s", damaged.blob, store, anew.blob)

    def _state(self) -> State:
        return self._journal.state()


def _digest(rows: ManifestRows) -> str:
    return hashlib.sha256(rows.content).hexdigest()
