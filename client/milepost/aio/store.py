"""The asynchronous client for one store: its handles, their states, and the epoch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import datetime

from milepost.aio.files import AsyncJobFiles
from milepost.core.body import AsyncState
from milepost.core.objects import NotPicklable, store_repr
from milepost.core.progress import Progress
from milepost.core.store import StoreOperations
from milepost.core.watch import wait_for, watch
from milepost.core.wishes import wait_for_wish
from milepost.drivers.asynchronous import AsyncDriver
from milepost.job_types import DroppedJob, HistoryEntry, JobAct
from milepost.types import CorruptHandle, Epoch, FileCredential, Handle, LockedHandles, Removal, StoreEvent, Wish
from milepost.wire import MAX_PAGE


class AsyncStateHandleStore(NotPicklable):
    """The handles of one store: the methods of `milepost.StateHandleStore`, with the same meaning and errors, as
    coroutines.
    """

    def __init__(self, driver: AsyncDriver, operations: StoreOperations) -> None:
        self._driver = driver
        self._operations = operations

    def __repr__(self) -> str:
        return store_repr(self, self._operations)

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._operations.store

    @property
    def session_id(self) -> str | None:
        """The id of the session that changes the store; None for a store that was opened for reading."""
        return self._operations.context.session

    @property
    def epoch(self) -> int | None:
        """The epoch under which this object adds, replaces, removes and clears; None if it has no epoch.

        `campaign` sets the epoch and `resign` removes it; the objects that `under` returns have one from the start.
        """
        return self._operations.epoch

    @property
    def files(self) -> AsyncJobFiles:
        """The files of the store's job, with their snapshots and savepoints."""
        return AsyncJobFiles(self._driver, self._operations)

    def under(self, epoch: int) -> AsyncStateHandleStore:
        """Return an object for the same store that writes under ``epoch``. Executors use it, since they do not
        campaign: their driver sends them its epoch.
        """
        return AsyncStateHandleStore(self._driver, self._operations.under(epoch))

    async def add_and_lock(
        self,
        name: str,
        state: AsyncState,
        labels: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Handle:
        """Add a handle, locked by this session. Raises `AlreadyExists`, and `LabelsLost` if it was added, but not with
        its labels.

        ``state`` is bytes, a path, a binary file or an iterable of bytes, which may be an asynchronous one. A state
        that can be read twice (bytes, a path, a seekable file, a list) is sent with its digest, and again if a retry is
        needed. A generator or a pipe can be sent only once, so the client finds the leader first. With such a state,
        the call raises `OutcomeUnknown` if the answer is lost, and `Unavailable` if a replica took the bytes and
        refused them. ``progress`` is as in `milepost.StateHandleStore.add_and_lock`, and is called in the event loop's
        thread.
        """
        return await self._driver.run(self._operations.add_and_lock(name, state, labels, timeout, progress))

    async def replace(
        self,
        name: str,
        version: str,
        state: AsyncState,
        labels: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        act: JobAct | None = None,
    ) -> Handle:
        """Set a new state of a handle that this session has locked, if ``version`` is its current version. Without
        ``labels`` the handle keeps its labels.

        ``state`` and ``progress`` are as in `add_and_lock`. Raises `NotExist`, `NotLocked`, `VersionMismatch` (its
        ``current`` is the current version), and `LabelsLost` if the state was set, but not with the labels.

        The same commit enters ``act`` into the history of the job; that takes an epoch.
        """
        return await self._driver.run(self._operations.replace(name, version, state, labels, timeout, progress, act))

    async def exists(self, name: str, *, timeout: float | None = None) -> str | None:
        """Return the version of the handle, or None if there is no such handle. Raises `Corrupt`."""
        return await self._driver.run(self._operations.exists(name, timeout))

    async def get(self, name: str, *, timeout: float | None = None) -> Handle:
        """Return the record of a handle, without locking it. Raises `NotExist`, `Corrupt`."""
        return await self._driver.run(self._operations.get(name, timeout))

    async def get_and_lock(self, name: str, *, timeout: float | None = None) -> Handle:
        """Lock a handle for this session and return its record.

        Raises `NotExist`, `Corrupt` (and then holds no lock).
        """
        return await self._driver.run(self._operations.get_and_lock(name, timeout))

    async def read(
        self,
        name: str,
        version: str | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> bytes:
        """Read a state, verified against its size and digest. With ``version`` only that version is read.

        ``timeout`` bounds the whole call with all bytes, so a large state needs more than the client's timeout.
        ``progress(done, total)`` gets the number of bytes received and the total; an exception of it ends the call.
        Raises `NotExist`, `VersionMismatch`, `BlobMissing`, `Corrupt`, `StateTruncated`.
        """
        chunks = self._operations.download(name, version, timeout, whole=True, progress=progress)
        return b"".join([chunk async for chunk in self._driver.stream(chunks)])

    @asynccontextmanager
    async def open(
        self,
        name: str,
        version: str | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Read a state in chunks, for a state that is too large for memory. Raises the errors of `read`, on entering
        the ``async with`` block or while iterating.

        The last chunk comes only after the size and the digest were verified. The block may be left before that.
        ``timeout`` bounds the start, and each resumption of a connection that broke; the reader itself may take any
        time between chunks. ``progress`` is as in `read`.
        """
        download = self._operations.download(name, version, timeout, progress=progress)
        async with aclosing(self._driver.stream(download)) as chunks:
            await anext(chunks)  # the first chunk is empty: it only shows that the state can be read
            yield chunks

    async def get_all_and_lock(self, *, timeout: float | None = None) -> LockedHandles:
        """Lock every handle for this session; return their records, sorted by name, and the damaged records."""
        return await self._driver.run(self._operations.get_all_and_lock(timeout))

    def get_all_handles(self, page_size: int = MAX_PAGE, *, timeout: float | None = None) -> AsyncIterator[Handle]:
        """Iterate over all handles by name, without locking them. The client fetches ``page_size`` (1 to 1000) of them
        at a time, each page within ``timeout`` seconds.

        The listing may include handles that are being removed. A handle whose record is damaged is only logged as a
        warning; `get_all_and_lock` returns it.
        """
        return self._driver.stream(self._operations.get_all_handles(page_size, timeout))

    def look_through(
        self, page_size: int = MAX_PAGE, *, timeout: float | None = None
    ) -> AsyncIterator[Handle | CorruptHandle]:
        """Iterate over all handles as `get_all_handles` does, except that a handle whose record is damaged is yielded
        as a `CorruptHandle` instead of being logged.
        """
        return self._driver.stream(self._operations.get_all_handles(page_size, timeout, with_damaged=True))

    async def release_and_try_remove(
        self, name: str, version: str | None = None, *, timeout: float | None = None
    ) -> Removal:
        """Release this session's lock on a handle, and remove the handle with its state unless other sessions hold
        locks on it. The result says whether it was removed, and which sessions hold it.

        A handle that does not exist counts as removed. With ``version`` only that version is removed; if another is
        current, the call raises `VersionMismatch`. Raises `DiscardFailed` if the handle was removed but its bytes are
        still there; repeating the call deletes them.
        """
        return await self._driver.run(self._operations.release_and_try_remove(name, version, timeout))

    async def clear_entries(self, *, timeout: float | None = None) -> int:
        """Remove every handle, including those that other sessions hold; return how many there were. The service
        deletes their states later.
        """
        return await self._driver.run(self._operations.clear_entries(timeout))

    async def drop_job(self, *, timeout: float | None = None) -> DroppedJob:
        """Drop the job of this store under this object's epoch, which the session must hold: all handles, files,
        snapshots and savepoints go in one commit. Return how many there were.

        The number of the epoch stays, so that a late driver of the dropped job is fenced, and so does the history. The
        service deletes the bytes later. Raises `Fenced`, and `Corrupt` if records of the files are damaged.
        """
        return await self._driver.run(self._operations.drop_job(timeout))

    async def report_rows(self, directory: str, rows: Mapping[int, int], *, timeout: float | None = None) -> int:
        """Enter into the history of the job how many input rows its batches had: ``rows`` by the number of the batch,
        at most 64, of the query whose checkpoint is in ``directory``. Return how many entries got their number.

        A batch counts if it was committed under this object's epoch. What the history has already stays, and a batch
        without an entry is passed over. Raises `Fenced`, and `InvalidRequest` if the service is of a release that
        does not know the call.
        """
        return await self._driver.run(self._operations.report_rows(directory, rows, timeout))

    async def restore_history(
        self, entries: Iterable[HistoryEntry], saved: datetime, source: str, *, timeout: float | None = None
    ) -> int:
        """Restore the history of the job from a backup that was made at the time ``saved``: ``entries``, the oldest
        first, as `Client.job_history` returned them of the job ``source``. Return how many entries were entered; the
        oldest are left out if there are too many. If they were restored before, from the same backup, this is 0.

        The entries keep their times, epochs and holders, are marked as restored, and name no snapshots. Raises
        `AlreadyExists` if the job has another history, `EpochHeld` if a driver leads it, `InvalidRequest` if the
        service would never have entered these entries, for example of epochs that it may still grant, and
        `NotSupported` if it is of a release that restores no histories.
        """
        return await self._driver.run(self._operations.restore_history(entries, saved, source, timeout))

    async def release(self, name: str, *, timeout: float | None = None) -> None:
        """Release this session's lock on a handle, if it holds one."""
        await self._driver.run(self._operations.release(name, timeout))

    async def release_all(self, *, timeout: float | None = None) -> None:
        """Release every lock of this session in this store."""
        await self._driver.run(self._operations.release_all(timeout))

    async def campaign(self, wait: float | None = 30.0, *, if_stopped: bool = False) -> Epoch:
        """Wait up to ``wait`` seconds (None: for ever) for the epoch of this store; this object then writes under the
        new epoch.

        The call also waits while a person has stopped the job, unless ``if_stopped``; the job stays stopped then.

        The call has no timeout besides ``wait``. An outage does not end the wait. If the wait ends without the epoch,
        the call raises `EpochHeld`, or the error of an outage that still goes on. If the session is lost, it raises
        `SessionLost` at once.
        """
        return await self._driver.run(self._operations.campaign(wait, if_stopped))

    async def current_epoch(self, *, timeout: float | None = None) -> Epoch:
        """Ask the service for the store's current epoch, whichever session holds it. The property `epoch` is instead
        the epoch under which this object writes.
        """
        return await self._driver.run(self._operations.current_epoch(timeout))

    def watch(
        self, *, after: str | int | None = None, existing: bool = False, timeout: float | None = None
    ) -> AsyncIterator[StoreEvent]:
        """Iterate over what happens in the store from now on, in the order of the revisions, each event once. The
        iteration ends ``timeout`` seconds after the store was first read, which may take as long; None means never. The
        arguments and errors are those of `milepost.StateHandleStore.watch`.
        """
        return self._driver.stream(watch(self._operations, after, existing, timeout))

    async def wait_for_wish(self, *, timeout: float | None = None) -> Wish | None:
        """Wait until a person wishes that the driver of the present epoch stops or hands over, and return the wish. A
        driver finishes its batch then, and resigns.

        Returns None once the epoch has ended. Outages do not end the wait. Raises `DeadlineExceeded` after ``timeout``
        seconds; None means never.
        """
        return await self._driver.run(wait_for_wish(self._operations, timeout))

    async def wait_for(self, name: str, other_than: str | None = None, *, timeout: float | None = None) -> Handle:
        """Wait until the handle exists with another version than ``other_than``, and return its record. Raises
        `DeadlineExceeded` after ``timeout`` seconds.
        """
        return await self._driver.run(wait_for(self._operations, name, other_than, timeout))

    async def file_credential(self, *, timeout: float | None = None) -> FileCredential | None:
        """Return the credential with which Hadoop reaches this store's files under the epoch that this session holds.

        None means that the service uses no tokens, so Hadoop needs no credential. Raises `Fenced` if the session does
        not hold the epoch.
        """
        return await self._driver.run(self._operations.file_credential(timeout))

    async def resign(self, *, timeout: float | None = None) -> None:
        """Give up the epoch, so that another driver can get it at once. Raises `Fenced` if another session holds it."""
        await self._driver.run(self._operations.resign(timeout))
