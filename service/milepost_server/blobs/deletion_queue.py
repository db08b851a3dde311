"""Deletes blobs that no record names any more, after a delay for readers that still read them, and retries failed
deletions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from milepost_backends.contract import BackendError, BlobStore, StorageUnavailable, UnsafeKey
from milepost_server.basics.deadline_queue import DeadlineQueue
from milepost_server.basics.waiting import gather_or_cancel
from milepost_server.blobs.keys import list_of

log = logging.getLogger("milepost.blobs")

RETRY_SECONDS = 5.0
TRY_SECONDS = 5.0
_AT_ONCE = 64


async def delete_with_list(blobs: BlobStore, key: str) -> None:
    """Delete a blob, and the list of digests that may exist beside it. Raises the errors of `BlobStore.delete`."""
    beside = list_of(key)
    if beside is None:
        await blobs.delete(key)
    else:
        await gather_or_cancel((blobs.delete(key), blobs.delete(beside)))


class DeletionQueue:
    """The deletions of blobs that are due now or later. They are lost if the process ends; the garbage collector then
    finds the blobs.
    """

    def __init__(self, blobs: BlobStore, clock: Callable[[], float]) -> None:
        self._blobs = blobs
        self._clock = clock
        self._deadlines: DeadlineQueue[str] = DeadlineQueue()
        self._put_until: DeadlineQueue[str] = DeadlineQueue()
        self._running: dict[str, asyncio.Task[None]] = {}

    def holds(self, key: str) -> bool:
        """Return whether the blob ``key`` waits in this queue for its deletion."""
        return key in self._deadlines

    def schedule(self, key: str, seconds: float) -> None:
        """Delete the blob ``key`` after ``seconds``. An empty ``key``, that of a state without a blob, is ignored."""
        if key:
            self._deadlines.set(key, self._clock() + seconds)

    def may_be_put(self, key: str, seconds: float) -> None:
        """Note that a client has a signed URL with which it may put the blob ``key`` for ``seconds``. If the blob is
        deleted earlier, it is deleted once more after that time.
        """
        self._put_until.set(key, self._clock() + seconds)

    async def delete(self, key: str, deadline: float | None = None) -> None:
        """Delete the blob ``key``, and return when it is deleted. Concurrent callers share one deletion, which
        continues after the ``deadline`` (monotonic) of a caller.

        Raises the errors of `BlobStore.delete`, and `StorageUnavailable` at the deadline.
        """
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.ensure_future(delete_with_list(self._blobs, key))
            task.add_done_callback(lambda done: self._ended(key, done))
        try:
            async with asyncio.timeout(None if deadline is None else max(0.0, deadline - self._clock())):
                await asyncio.shield(task)
        except TimeoutError as error:
            raise StorageUnavailable(f"discarding the blob {key} took too long") from error
        except UnsafeKey as error:
            # an invalid key comes from a damaged record: no such blob exists, and the handle must still be removable
            log.warning("no blob can have this key, so there is nothing to discard: %s", error)
        self._deadlines.discard(key)
        if (until := self._put_until.get(key)) is not None and until > self._clock():
            self._deadlines.set(key, until)

    def _ended(self, key: str, discard: asyncio.Task[None]) -> None:
        del self._running[key]
        if not discard.cancelled():
            # retrieve the exception, since asyncio would log it if no caller waits for this deletion
            discard.exception()

    async def try_delete(self, key: str, seconds: float | None = None) -> BackendError | None:
        """Delete the blob ``key`` if that succeeds within ``seconds`` (default: `TRY_SECONDS`), and return None.

        Otherwise schedule the deletion for later, and return the error.
        """
        try:
            await self.delete(key, self._clock() + (TRY_SECONDS if seconds is None else seconds))
        except BackendError as error:
            log.warning("cannot discard blob %s now, and try again later: %s", key, error)
            self.schedule(key, RETRY_SECONDS)
            return error
        return None

    async def run(self, interval: float = 1.0) -> None:
        """Delete blobs whose deletion is due, until cancelled. Pause for ``interval`` seconds when none is due."""
        while True:
            now = self._clock()
            while self._deadlines.waiting(now):
                keys = self._deadlines.take(now, _AT_ONCE)
                for key in keys:
                    # put the key back, since `holds` must return true until the blob is deleted
                    self._deadlines.set(key, now)
                for key in keys:
                    await self.try_delete(key)
                await asyncio.sleep(0)
            while self._put_until.waiting(now):
                self._put_until.take(now, _AT_ONCE)
                await asyncio.sleep(0)
            await asyncio.sleep(interval)

    def clear(self) -> None:
        """Forget all deletions, because this replica no longer leads. The records of the next leader may name these
        blobs; if not, its garbage collector finds them.
        """
        self._deadlines.clear()
        self._put_until.clear()
