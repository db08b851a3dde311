"""The effects of committed requests outside of the records: blobs are deleted, the deadlines of sessions and uploads
begin and end, and waiting clients are woken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.model.records import Handle, Record, Session, Stored, Upload, store_of
from milepost_server.model.requests.base import Request
from milepost_server.model.requests.sessions import EndSession, ExpireSession
from milepost_server.model.requests.trees import state_write_of
from milepost_server.replica.epoch_queues import EpochQueues
from milepost_server.replica.leases import Leases, UploadLeases
from milepost_server.replica.settings import Settings
from milepost_server.rules.decisions import Accepted, only_paths


class Effects:
    """The `JournalObserver` of a replica: after each commit, it schedules deletions of blobs, updates the deadlines of
    sessions and uploads, and wakes waiting tasks.
    """

    def __init__(
        self,
        deletions: DeletionQueue,
        leases: Leases,
        uploads: UploadLeases,
        changes: Changes,
        epoch_queues: EpochQueues,
        settings: Settings,
    ) -> None:
        self._deletions = deletions
        self._leases = leases
        self._uploads = uploads
        self._changes = changes
        self._epoch_queues = epoch_queues
        self._settings = settings

    def committed(self, request: Request, accepted: Accepted) -> None:
        """Schedule the deletion of blobs that are not needed any more, update the deadlines of sessions and uploads,
        and wake waiting tasks.
        """
        for key in accepted.discards:
            self._deletions.schedule(key, self._settings.linger_seconds)
        # orphans are deleted after a longer delay, since a client may still be putting such a blob
        for key in accepted.orphans:
            self._deletions.schedule(key, self._settings.collect_after_seconds)
        self._changes.announce(accepted.changes)
        if only_paths(accepted.changes):
            return  # nothing else follows from a change of paths alone
        self._epoch_queues.committed(accepted.changes.values())
        if isinstance(request, (EndSession, ExpireSession)):
            self._leases.forget(request.session)
            return
        write = state_write_of(request)
        if write is not None and write.upload is not None:
            self._taken(write.store_name, write.upload.id, accepted.changes.values())
        for key, record in accepted.changes.items():
            if isinstance(record, Session):
                self._leases.renew(record)
            elif isinstance(record, Upload):
                self._uploads.note(store_of(key) or "", record)

    def found(self, key: str, record: Record) -> None:
        """Begin the deadline of a session or upload whose record was put back, with its full time, as after a
        take-over.
        """
        if isinstance(record, Session):
            self._leases.begin(record)
        elif isinstance(record, Upload) and not record.ended:
            self._uploads.begin(store_of(key) or "", record)

    def given_up(self, request: Request) -> None:
        """Delete the blob of a request that can never be committed. The blob of an upload is kept, since another
        attempt may use it.
        """
        write = state_write_of(request)
        if write is not None and write.upload is None:
            self._deletions.schedule(write.blob.key, 0.0)

    def _taken(self, store: str, upload: str, changed: Iterable[Stored | None]) -> None:
        """Note that a client may still put the blob of an upload that a handle has taken: as long as the upload's
        signed URL is valid, and for some time after that, since a put that has begun may end later.
        """
        seconds = self._uploads.expires_in(store, upload) + self._settings.collect_after_seconds
        for record in changed:
            if isinstance(record, Handle):
                self._deletions.may_be_put(record.blob, seconds)


class Changes:
    """The tasks that wait for a change of a record, by the key of the record."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def announce(self, keys: Iterable[str]) -> None:
        """Wake the tasks that wait for one of these keys, because their records were changed."""
        if self._waiting:
            for key in keys:
                _wake(self._waiting.get(key, ()))

    def end(self) -> None:
        """Wake all waiting tasks, because leadership is over and no record will change here any more."""
        for waiting in self._waiting.values():
            _wake(waiting)

    async def wait(self, key: str, seconds: float) -> None:
        """Wait until the record under ``key`` is changed, for ``seconds`` at most."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(key, set())
        waiting.add(future)
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await future
        except TimeoutError:
            return
        finally:
            waiting.discard(future)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]


def _wake(waiting: Iterable[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
