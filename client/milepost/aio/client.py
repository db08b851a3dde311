"""The asynchronous client of a Milepost service; `milepost.Client` is the blocking one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType

import httpx

from milepost.aio.session import AsyncSession, OnLost
from milepost.aio.store import AsyncStateHandleStore
from milepost.core import service, wishes
from milepost.core.calls.calls import Caller
from milepost.core.calls.cells import CellsCaller
from milepost.core.calls.credentials import AsyncToken
from milepost.core.calls.request import checked_name
from milepost.core.direct import DIRECT_ABOVE
from milepost.core.job_watch import watch_job
from milepost.core.objects import NotPicklable, client_repr
from milepost.core.store import StoreOperations
from milepost.core.store_calls import SessionContext
from milepost.drivers.asynchronous import AsyncDriver
from milepost.drivers.connections import Connections, Verify
from milepost.drivers.environment import File, access, default_holder
from milepost.job_types import HistoryEntry, JobInfo, JobState, JobSummary
from milepost.types import Epoch, Process, Rights, SessionInfo, SessionSummary, Status, SteppedDown, StoreSummary
from milepost.wire import MAX_PAGE


class AsyncClient(NotPicklable):
    """A client of one Milepost service, like `milepost.Client`.

    The tasks of one event loop may share it; other threads and forked processes make their own.
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        token: AsyncToken | None = None,
        token_file: File | None = None,
        timeout: float = 30.0,
        verify: Verify | None = None,
        cert: File | None = None,
        key: File | None = None,
        proxy: str | None = None,
        trust_env: bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
        direct_above: int | None = DIRECT_ABOVE,
    ) -> None:
        """Make a client. The arguments and errors are those of `milepost.Client`, but ``token`` may also be a coroutine
        function. A plain ``token`` function is called in a thread, because it may block.
        """
        way = access(url, token=token, token_file=token_file, verify=verify, cert=cert, key=key)
        self._caller = way.caller(timeout, direct_above)
        self._driver = AsyncDriver(Connections(way.verify, proxy, trust_env, transport))
        self._whole: AsyncClient | None = None

    def __repr__(self) -> str:
        return client_repr(self, self._caller, self._driver.closed)

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses of the service; the first is that of the replica that led when the last call was answered."""
        return self._caller.replicas.leader_first()

    @property
    def cell(self) -> str:
        """The name of the cell; empty for a client of several cells, and of a deployment that is no cell."""
        return self._caller.cell

    @property
    def timeout(self) -> float:
        """Seconds that one call may take, unless the call has a timeout of its own."""
        return self._caller.timeout

    def by_cell(self) -> Mapping[str, AsyncClient]:
        """Return a client for each cell, by the cell's name. See `milepost.Client.by_cell`."""
        if not isinstance(self._caller, CellsCaller):
            return {self.cell: self}
        return {caller.cell: self._of(caller) for caller in self._caller.each}

    async def of_job(self, job: str, *, begin: bool = False, timeout: float | None = None) -> AsyncClient:
        """Return a client for the cell that has the job, or in which it would begin; with ``begin``, it then begins
        there. See `milepost.Client.of_job`.
        """
        name = checked_name(job, "job")
        if not isinstance(self._caller, CellsCaller):
            return self
        return self._of(await self._driver.run(self._caller.locate(name, begin=begin, timeout=timeout)))

    def _of(self, caller: Caller) -> AsyncClient:
        made = AsyncClient.__new__(AsyncClient)
        made._caller, made._driver, made._whole = caller, self._driver, self
        return made

    def session(
        self,
        holder: str | None = None,
        ttl: float = 15.0,
        session_id: str | None = None,
        on_lost: OnLost | None = None,
        *,
        process: Process | None = None,
        timeout: float | None = None,
    ) -> AsyncSession:
        """Make a session, which ``async with`` begins; the arguments and errors are those of
        `milepost.Client.session`.
        """
        holder = default_holder() if holder is None else holder
        return AsyncSession(self._driver, self._caller, holder, ttl, session_id, on_lost, timeout, process)

    def store(self, name: str) -> AsyncStateHandleStore:
        """Open a store for reading; to change it, use `AsyncSession.store`. Raises `InvalidName`."""
        return AsyncStateHandleStore(self._driver, StoreOperations(self._caller, name, SessionContext(None)))

    def stores(self, *, timeout: float | None = None) -> AsyncIterator[StoreSummary]:
        """Iterate over all stores by name; they are fetched page by page, each within ``timeout`` seconds."""
        return self._driver.stream(service.stores(self._caller, timeout))

    def sessions(self, *, timeout: float | None = None) -> AsyncIterator[SessionSummary]:
        """Iterate over all living sessions by id; they are fetched page by page, each within ``timeout`` seconds.

        Raises `NotSupported` if the service is of a release that cannot list sessions.
        """
        return self._driver.stream(service.sessions(self._caller, timeout))

    def jobs(self, *, dropped: bool = False, timeout: float | None = None) -> AsyncIterator[JobSummary]:
        """Iterate over all jobs by name: the stores with an epoch or a snapshot of their files; with ``dropped``, those
        that were dropped in place of these. They are fetched page by page, each within ``timeout`` seconds.
        """
        return self._driver.stream(service.jobs(self._caller, dropped, timeout))

    async def job_info(self, job: str, *, timeout: float | None = None) -> JobInfo:
        """Return a job as a whole: who leads it, who stands by, and which batches it has committed. ``job`` is the name
        of its store.

        Raises `NotExist` if there is no such job.
        """
        return await self._driver.run(service.job_info(self._caller, job, timeout))

    def job_history(
        self, job: str, page_size: int = MAX_PAGE, *, timeout: float | None = None
    ) -> AsyncIterator[HistoryEntry]:
        """Iterate over what became of a job, the newest entry first: its epochs, its batches, and what people did.

        The service keeps about the last 500 batches, and about the last 200 of the other entries, for about 90 days.
        The entries are fetched page by page, ``page_size`` (1 to 1000) at a time, each page within ``timeout`` seconds.
        Raises `NotExist` if there is no such job.
        """
        return self._driver.stream(service.job_history(self._caller, job, page_size, timeout))

    def job_events(
        self, job: str, *, after: str | int | None = None, existing: bool = False, timeout: float | None = None
    ) -> AsyncIterator[HistoryEntry]:
        """Iterate over what happens to a job from now on; the arguments and errors are those of
        `milepost.Client.job_events`.
        """
        return self._driver.stream(watch_job(self._caller, job, after, existing, timeout))

    async def session_info(self, session_id: str, *, timeout: float | None = None) -> SessionInfo:
        """Return what the service knows of a session, whichever client began it. Raises `SessionExpired` if the session
        has ended, and `SessionUnknown` if the service does not know it.
        """
        return await self._driver.run(service.session_info(self._caller, session_id, timeout))

    async def end_session(self, session_id: str, *, timeout: float | None = None) -> None:
        """End a session that another process holds: its locks end, and its epochs become free. A driver that holds it
        publishes nothing more. Raises `SessionExpired` if the session has ended, and `SessionUnknown` if the service
        does not know it.
        """
        await self._driver.run(service.end_other_session(self._caller, session_id, timeout))

    async def stop_job(
        self,
        job: str,
        *,
        savepoint: str | None = None,
        reason: str = "",
        who: str | None = None,
        timeout: float | None = None,
    ) -> JobState:
        """Ask the driver of a job to stop in order, and let no driver lead until `start_job`. The call does not wait
        for the end of the epoch, as `wait_for_end` does.

        With ``savepoint``, the service makes a savepoint of that name, of the state after the last batch, when the
        driver resigns, or at once if none leads. ``who`` (default: ``user@host:pid``) and ``reason`` are for people.
        A repeated call is answered as the first. Raises `NotExist` if there is no such job, or no batch to keep, and
        `AlreadyExists` if the name of the savepoint is taken.
        """
        asked = wishes.stop_job(self._caller, job, savepoint, who or default_holder(), reason, timeout)
        return await self._driver.run(asked)

    async def hand_over_job(
        self,
        job: str,
        *,
        epoch: int | None = None,
        force: bool = False,
        to: str | None = None,
        reason: str = "",
        who: str | None = None,
        timeout: float | None = None,
    ) -> JobState:
        """Ask the driver of a job to resign between two batches, so that a standby leads. The call does not wait for
        the end of the epoch, as `wait_for_end` does.

        ``epoch`` is the epoch that shall end (default: the current one); nothing is asked if it has ended. Raises
        `NotExist` if there is no such job, or if no driver stands by and ``force`` is false. ``to``, which needs
        ``epoch``, is the holder or the session of the standby that shall lead: the others leave the epoch to it for ten
        seconds, and `NotExist` is raised if it does not stand by.
        """
        asked = wishes.hand_over_job(self._caller, job, epoch, force, who or default_holder(), reason, timeout, to)
        return await self._driver.run(asked)

    async def start_job(
        self, job: str, *, reason: str = "", who: str | None = None, timeout: float | None = None
    ) -> JobState:
        """Let drivers lead a stopped job again: the first that stands by leads at once. Raises `NotExist` if there is
        no such job.
        """
        return await self._driver.run(wishes.start_job(self._caller, job, who or default_holder(), reason, timeout))

    async def wait_for_end(self, job: str, epoch: int, *, timeout: float | None = None) -> Epoch:
        """Wait until no driver holds ``epoch`` of a job any more, and return the epoch that is current then. Raises
        `DeadlineExceeded` after ``timeout`` seconds.
        """
        calls = StoreOperations(self._caller, job, SessionContext(None))
        return await self._driver.run(wishes.wait_for_end(calls, epoch, timeout))

    async def status(self, *, timeout: float | None = None) -> Status:
        """Return the status of whichever replica answers first, with the leader that this replica knows."""
        return await self._driver.run(service.status(self._caller, timeout))

    async def whoami(self, *, timeout: float | None = None) -> Rights:
        """Return the name and the rights that the service gives to this client's token. Any replica answers."""
        return await self._driver.run(service.whoami(self._caller, timeout))

    async def step_down(self, term: int | None = None, *, timeout: float | None = None) -> SteppedDown:
        """Ask the leader to finish the requests in flight and let another replica lead. If no other replica does, the
        same leader leads again.

        With ``term`` (from `Status`) only the leader of that term steps down, so the call is safe to repeat.
        ``timeout`` (seconds) replaces the client's timeout. Raises `Fenced` if ``term`` is not the leader's.
        """
        return await self._driver.run(service.step_down(self._caller, term, timeout))

    async def close(self) -> None:
        """Close the connections. Later calls raise `Closed`. Closing the client of one cell does nothing."""
        if self._whole is not None:
            return
        await self._driver.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
