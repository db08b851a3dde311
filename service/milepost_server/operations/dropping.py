"""Drop a job, and delete the bytes that only its manifests named."""

from __future__ import annotations

import asyncio

from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.journal import Journal
from milepost_server.model.manifest_rows import ManifestRows
from milepost_server.model.requests.base import StoreRequest
from milepost_server.model.requests.handles import DropJob
from milepost_server.replica.submitter import Caller, Reply, Submitter
from milepost_server.replica.trees.manifests import Manifests
from milepost_server.rules.trees.manifests import no_longer_named


class Dropping:
    """Drops jobs. A blob is deleted ``linger_seconds`` after the drop, so that readers can finish."""

    def __init__(
        self,
        journal: Journal,
        deletions: DeletionQueue,
        loop_time: LoopTimeBudget,
        submitter: Submitter,
        manifests: Manifests,
        linger_seconds: float,
    ) -> None:
        self._journal = journal
        self._deletions = deletions
        self._loop_time = loop_time
        self._submitter = submitter
        self._manifests = manifests
        self._linger_seconds = linger_seconds

    async def drop(self, caller: Caller, job: str) -> Reply:
        """Drop a job under the caller's epoch. Raises `Problem`, for example ``fenced`` or ``corrupt``."""
        return await self.perform(DropJob(caller.attempt, job, caller.epoch))

    async def perform(self, request: StoreRequest) -> Reply:
        """Make a request by which a job has no files any more. Maintenance drops the records of its files, and deletes
        their blobs.

        Blobs that only a manifest names have no record that leads to them afterwards, so they are scheduled for
        deletion here; if the leader ends first, the garbage collection of the next one deletes them. Raises the
        problems of `Submitter.perform`.
        """
        await self._manifests.ready(request.store_name)
        rows = self._journal.state().manifests(request.store_name)
        reply = await self._submitter.perform(request)
        if rows and not reply.answer.replayed:
            blobs = await asyncio.to_thread(no_longer_named, rows, ManifestRows.of([]))
            await self._loop_time.each(blobs, lambda key: self._deletions.schedule(key, self._linger_seconds))
        return reply
