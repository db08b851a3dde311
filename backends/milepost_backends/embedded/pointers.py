"""Keeps pointers in an SQLite file in a local directory. This serves one machine, and needs no other program.

One thread does all work on one connection, and commits each group in one transaction. So a task that is cancelled while
it waits for a group cannot leave the group half done. Each commit syncs the write-ahead log, which makes it durable.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

from milepost_backends.contract import Change, Commit, CommitRefused, GroupLimits, Head, Refusal, StorageUnavailable
from milepost_backends.embedded.journals import SqliteJournals
from milepost_backends.embedded.place import RESERVE_SUFFIX, WITNESS_SUFFIX
from milepost_backends.worker import Worker

T = TypeVar("T")

FILE_NAME = "pointers.db"
WITNESS_NAME = f"pointers{WITNESS_SUFFIX}"
RESERVE_NAME = f"pointers{RESERVE_SUFFIX}"


class EmbeddedPointers:
    """A `PointerStore` in ``directory/pointers.db``.

    ``busy_timeout`` (seconds) bounds each wait for another process that uses the file. ``accept_loss`` has the values
    of ``--accept-loss``: the damages whose loss the owner has accepted, see `JournalDamaged`.
    """

    def __init__(self, directory: Path, *, busy_timeout: float = 5.0, accept_loss: Collection[str] = ()) -> None:
        self.limits = GroupLimits(requests=1024, bytes=8 * 1024 * 1024, in_flight=1)
        self.bytes_sent = 0
        self.commit_delay = 0.0
        self._journals = SqliteJournals(directory / FILE_NAME, busy_timeout, self.limits, accept_loss)
        # the name of a directory need not be UTF-8, but `place` is text
        path = os.fsencode(directory.resolve()).decode(errors="backslashreplace")
        self.place = f"embedded:{path}"
        self._worker: Worker | None = None
        self._trying: asyncio.Future[None] | None = None

    @property
    def full(self) -> str | None:
        """Return in words why the disk has no room for more data; None while it has. See `PointerStore.full`.

        If an attempt to reserve room has failed, each call may also start another attempt, in the worker thread.
        """
        reserve = self._journals.reserve
        if reserve.settled:
            return None
        why = reserve.missing()
        idle = self._trying is None or self._trying.done()
        if self._worker is not None and idle and reserve.may_be_tried():
            self._trying = self._worker.run(reserve.keep)
        return why

    async def open(self) -> None:
        """Open the SQLite file in a new worker thread; see `PointerStore.open`.

        Raises `JournalDamaged` for a file that is not a database.
        """
        if self._worker is None:
            self._worker = Worker("pointers")
        try:
            await self._run(self._journals.open)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the SQLite file and end the worker thread; see `PointerStore.close`.

        Groups that were passed to the thread before still end with their true outcome.
        """
        worker, self._worker = self._worker, None
        if worker is not None:
            closing = worker.run(self._journals.close)
            worker.end()
            await asyncio.shield(closing)

    async def journals(self) -> Sequence[str]:
        """Return the names of the journals in the SQLite file; see `PointerStore.journals`."""
        return await self._run(self._journals.journals)

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        """Raise the head's term in one transaction; see `PointerStore.take_over`.

        No retry is needed, since the transaction reads and writes the head under one lock.
        """
        return await self._run(self._journals.take_over, journal, ours)

    async def load(self, head: Head) -> AsyncGenerator[Change, None]:
        """Yield the journal's records, which are read in batches; see `PointerStore.load`.

        All records are of one moment: if a commit comes in between, this raises `TakeOverLost`.
        """
        begin: int | None = 0
        while begin is not None:
            records, begin = await self._run(self._journals.batch, head, begin)
            for record in records:
                yield record

    def commit(
        self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None
    ) -> asyncio.Future[Commit]:
        """Write a group in one SQLite transaction; see `PointerStore.commit`.

        If the waiting task is cancelled, a transaction that has begun runs to its end.
        """
        if self._worker is None:
            refused: asyncio.Future[Commit] = asyncio.get_running_loop().create_future()
            refused.set_result(CommitRefused(Refusal.FAILED, "the pointer store is not open"))
            return refused
        for key, value in changes:
            self.bytes_sent += len(key) + len(value or b"")
        return self._worker.run(self._journals.commit, head, changes, revision, digest)

    async def confirm(self, head: Head) -> bool:
        """Return whether the stored head has the term and lineage of ``head``; see `PointerStore.confirm`."""
        return await self._run(self._journals.confirm, head)

    async def _run(self, act: Callable[..., T], *arguments: object) -> T:
        if self._worker is None:
            raise StorageUnavailable("the pointer store is not open")
        return await self._worker.run(act, *arguments)
