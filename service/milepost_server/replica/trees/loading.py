"""Bring the manifests of trees into memory, when a tree is first asked for."""

from __future__ import annotations

import asyncio

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import BlobStore
from milepost_server.basics.problems import problem
from milepost_server.blobs.delivery import DeliveryCut, deliver
from milepost_server.journal import Journal
from milepost_server.rules.requests import BlobRef
from milepost_server.rules.stored.manifest_rows import ManifestRows
from milepost_server.rules.stored.trees import Manifest


class Manifests:
    """The manifests of the trees of a journal. However many requests wait for one, it is read once.

    A new leader has none of them, so that a fail-over takes no longer for the files that all jobs have.
    """

    def __init__(self, journal: Journal, blobs: BlobStore) -> None:
        self._journal = journal
        self._blobs = blobs
        self._reading: dict[str, asyncio.Task[ManifestRows]] = {}

    async def ready(self, store: str) -> None:
        """Wait until all manifests of a store's tree are in memory.

        Raises problems: ``corrupt`` if one is damaged or gone, ``storage-unavailable``, ``no-leader``.
        """
        while missing := self._journal.read().view.state.unloaded(store):
            rows = await self._rows(store, missing[0])
            state = self._journal.read().view.state
            if missing[0] in state.unloaded(store):  # it may have been merged into another one meanwhile
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
