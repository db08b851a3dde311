"""The blocking client of a Milepost service; `milepost.aio` has the asynchronous one."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType

import httpx

from milepost.core import service, wishes
from milepost.core.calls.calls import Caller
from milepost.core.calls.cells import CellsCaller
from milepost.core.calls.credentials import Token, refuse_coroutine_function
from milepost.core.calls.request import checked_name
from milepost.core.checkpoint_location import NAME_SERVICE, default_authority
from milepost.core.direct import DIRECT_ABOVE
from milepost.core.job_watch import watch_job
from milepost.core.objects import NotPicklable, client_repr
from milepost.core.store import StoreOperations
from milepost.core.store_calls import SessionContext
from milepost.drivers.blocking import BlockingDriver
from milepost.drivers.connections import Connections, Verify
from milepost.drivers.environment import File, access, default_holder
from milepost.job_types import HistoryEntry, JobInfo, JobState, JobSummary
from milepost.session import OnLost, Session
from milepost.store import StateHandleStore
from milepost.types import Epoch, Process, Rights, SessionInfo, SessionSummary, Status, SteppedDown, StoreSummary
from milepost.wire import MAX_PAGE


class Client(NotPicklable):
    """A client of one Milepost service.

    It finds the leader among its addresses and remembers it. Each call sends one request under one idempotency key, and
    sends the request again as long as a retry is safe and ``timeout`` (seconds) has not passed.

    Threads may share a client. A forked process may go on using the client, which makes new connections there unless it
    has a ``transport``. The client's sessions stay with the process that began them.
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        token: Token | None = None,
        token_file: File | None = None,
        timeout: float = 30.0,
        verify: Verify | None = None,
        cert: File | None = None,
        key: File | None = None,
        proxy: str | None = None,
        trust_env: bool = True,
        transport: httpx.BaseTransport | None = None,
        direct_above: int | None = DIRECT_ABOVE,
    ) -> None:
        """Make a client, which connects with the first call.

        ``url`` is the address of the service, or several: those of its replicas. Without ``url``, the environment
        describes the service: ``MILEPOST_URL`` (with commas between several addresses) and, for arguments that are not
        given, ``MILEPOST_TOKEN`` or ``MILEPOST_TOKEN_FILE``, ``MILEPOST_CA``, ``MILEPOST_CERT`` and ``MILEPOST_KEY``.
        With ``url``, the client does not read the environment. If there are several deployments side by side, the
        address is the list of these cells, ``a=http://a-0:8080,http://a-1:8080;b=http://b-0:8080``, or the place of
        that list: ``@`` and a path or a URL, which is read again when it changes. Each call about a job goes to the
        cell that has it; other calls, and sessions, are those of the client of one cell (`of_job`, `by_cell`).

        ``token`` is a bearer token, or a function that returns one: the client calls it before each attempt, and once
        more if the service answers 401. ``token_file`` is a file that contains a token. The client reads it for each
        request, so you may replace it.

        ``verify`` says which certificates the client trusts: True (the default) trusts those of public authorities, a
        path those of the authorities in that file (PEM), and False any; an `ssl.SSLContext` decides itself, and may
        present a certificate of its own. ``cert`` and ``key`` are files (PEM) of the certificate that the client
        presents.

        ``proxy`` is the URL of a proxy. Without it, and with ``trust_env``, the client uses those of ``HTTPS_PROXY``,
        ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, which may also name networks. ``transport`` carries the requests
        instead of connections; the client closes it. A transport that is not an `httpx.HTTPTransport` must keep to the
        request's timeouts itself, since nothing can interrupt it from outside.

        ``timeout`` (seconds) is how long one call may take, unless the call has one of its own. A state of more than
        ``direct_above`` bytes (None: none) is transferred directly between this process and the blob store, if the blob
        store can sign URLs and can be reached from here; any other state goes through the service.

        Raises ValueError for an address that is not an http or https URL, if there is none, and for files and settings
        that cannot be used.
        """
        refuse_coroutine_function(token)
        way = access(url, token=token, token_file=token_file, verify=verify, cert=cert, key=key)
        self._caller = way.caller(timeout, direct_above)
        self._driver = BlockingDriver(Connections(way.verify, proxy, trust_env, transport))
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._whole: Client | None = None

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

    def by_cell(self) -> Mapping[str, Client]:
        """Return a client for each cell, by the cell's name. They share this client's connections, and end with it. If
        the client has the addresses of one deployment, that is this client itself, without a name.
        """
        if not isinstance(self._caller, CellsCaller):
            return {self.cell: self}
        return {caller.cell: self._of(caller) for caller in self._caller.each}

    def of_job(self, job: str, *, begin: bool = False, timeout: float | None = None) -> Client:
        """Return a client for the cell that has the job, or, if there is no such job, for the cell in which it would
        begin; with ``begin``, it then begins there. It shares this client's connections, and ends with it. If the
        client has the addresses of one deployment, that is this client itself.

        Each cell that may have the job is waited for, ``timeout`` seconds at most (default: the client's), so that an
        outage of one never lets a job begin a second time. Raises `CellsDiffer` if a cell has another list of cells.
        """
        name = checked_name(job, "job")
        if not isinstance(self._caller, CellsCaller):
            return self
        return self._of(self._driver.run(self._caller.locate(name, begin=begin, timeout=timeout)))

    def _of(self, caller: Caller) -> Client:
        made = Client.__new__(Client)
        made._caller, made._driver, made._sessions, made._whole = caller, self._driver, self._sessions, self
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
    ) -> Session:
        """Begin a session of ``ttl`` seconds (1 to 3600), or continue the living session ``session_id``. A thread
        renews the session until it is closed.

        Other clients see ``holder`` as the name of the epoch's holder; its default is ``user@host:pid``.
        ``process`` describes the process that holds the session, for people who look at a job. ``on_lost(session,
        reason)`` is called once, from the renewing thread, when the session is lost. ``timeout`` (seconds) replaces the
        client's timeout. Raises `SessionExpired` if the session ``session_id`` has ended.
        """
        holder = default_holder() if holder is None else holder
        lease = self._driver.run(service.begin_session(self._caller, holder, ttl, session_id, timeout, process))
        session = Session(self._driver, self._caller, lease, holder, on_lost)
        self._sessions.add(session)
        return session

    def store(self, name: str) -> StateHandleStore:
        """Open a store for reading; to change it, open it from a session (`Session.store`). Raises `InvalidName`."""
        return StateHandleStore(self._driver, StoreOperations(self._caller, name, SessionContext(None)))

    def stores(self, *, timeout: float | None = None) -> Iterator[StoreSummary]:
        """Iterate over all stores by name; they are fetched page by page, each within ``timeout`` seconds."""
        return self._driver.stream(service.stores(self._caller, timeout))

    def sessions(self, *, timeout: float | None = None) -> Iterator[SessionSummary]:
        """Iterate over all living sessions by id; they are fetched page by page, each within ``timeout`` seconds.

        Raises `NotSupported` if the service is of a release that cannot list sessions.
        """
        return self._driver.stream(service.sessions(self._caller, timeout))

    def jobs(self, *, dropped: bool = False, timeout: float | None = None) -> Iterator[JobSummary]:
        """Iterate over all jobs by name: the stores with an epoch or a snapshot of their files; with ``dropped``, those
        that were dropped in place of these. They are fetched page by page, each within ``timeout`` seconds.
        """
        return self._driver.stream(service.jobs(self._caller, dropped, timeout))

    def job_info(self, job: str, *, timeout: float | None = None) -> JobInfo:
        """Return a job as a whole: who leads it, who stands by, and which batches it has committed. ``job`` is the name
        of its store.

        Raises `NotExist` if there is no such job.
        """
        return self._driver.run(service.job_info(self._caller, job, timeout))

    def job_history(
        self, job: str, page_size: int = MAX_PAGE, *, timeout: float | None = None
    ) -> Iterator[HistoryEntry]:
        """Iterate over what became of a job, the newest entry first: its epochs, its batches, and what people did.

        The service keeps about the last 500 batches, and about the last 200 of the other entries, for about 90 days.
        The entries are fetched page by page, ``page_size`` (1 to 1000) at a time, each page within ``timeout`` seconds.
        Raises `NotExist` if there is no such job.
        """
        return self._driver.stream(service.job_history(self._caller, job, page_size, timeout))

    def job_events(
        self, job: str, *, after: str | int | None = None, existing: bool = False, timeout: float | None = None
    ) -> Iterator[HistoryEntry]:
        """Iterate over what happens to a job from now on, in the order of the revisions: each entry of its history, as
        soon as it is committed. The iteration ends ``timeout`` seconds after the history was first read, which may take
        as long; None means never. An outage or a fail-over does not end it.

        With ``existing``, the entries that the service keeps come first. If the client was cut off for so long that the
        service no longer keeps all entries, there is an entry of the kind ``missed`` in their place. With ``after``,
        the ``id`` of an earlier entry, the iteration begins there, and raises `Compacted` if not all entries after it
        are kept. Raises `NotExist` if there is no such job, and `AccessDenied` once the client may not read it any
        more.
        """
        return self._driver.stream(watch_job(self._caller, job, after, existing, timeout))

    def session_info(self, session_id: str, *, timeout: float | None = None) -> SessionInfo:
        """Return what the service knows of a session, whichever client began it. Raises `SessionExpired` if the session
        has ended, and `SessionUnknown` if the service does not know it.
        """
        return self._driver.run(service.session_info(self._caller, session_id, timeout))

    def end_session(self, session_id: str, *, timeout: float | None = None) -> None:
        """End a session that another process holds: its locks end, and its epochs become free. A driver that holds it
        publishes nothing more. Raises `SessionExpired` if the session has ended, and `SessionUnknown` if the service
        does not know it.
        """
        self._driver.run(service.end_other_session(self._caller, session_id, timeout))

    def stop_job(
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
        return self._driver.run(asked)

    def hand_over_job(
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
        return self._driver.run(asked)

    def start_job(
        self, job: str, *, reason: str = "", who: str | None = None, timeout: float | None = None
    ) -> JobState:
        """Let drivers lead a stopped job again: the first that stands by leads at once. Raises `NotExist` if there is
        no such job.
        """
        return self._driver.run(wishes.start_job(self._caller, job, who or default_holder(), reason, timeout))

    def wait_for_end(self, job: str, epoch: int, *, timeout: float | None = None) -> Epoch:
        """Wait until no driver holds ``epoch`` of a job any more, and return the epoch that is current then. Raises
        `DeadlineExceeded` after ``timeout`` seconds.
        """
        calls = StoreOperations(self._caller, job, SessionContext(None))
        return self._driver.run(wishes.wait_for_end(calls, epoch, timeout))

    def status(self, *, timeout: float | None = None) -> Status:
        """Return the status of whichever replica answers first, with the leader that this replica knows."""
        return self._driver.run(service.status(self._caller, timeout))

    def whoami(self, *, timeout: float | None = None) -> Rights:
        """Return the name and the rights that the service gives to this client's token. Any replica answers."""
        return self._driver.run(service.whoami(self._caller, timeout))

    def step_down(self, term: int | None = None, *, timeout: float | None = None) -> SteppedDown:
        """Ask the leader to finish the requests in flight and let another replica lead. If no other replica does, the
        same leader leads again.

        With ``term`` (from `Status`) only the leader of that term steps down, so the call is safe to repeat.
        ``timeout`` (seconds) replaces the client's timeout. Raises `Fenced` if ``term`` is not the leader's.
        """
        return self._driver.run(service.step_down(self._caller, term, timeout))

    def close(self) -> None:
        """End the client's sessions and close its connections. Later calls raise `Closed`. Closing the client of one
        cell (`of_job`, `by_cell`) does nothing, since its connections are those of the whole.
        """
        if self._whole is not None:
            return
        for session in list(self._sessions):
            session.close()
        self._driver.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def first_address(client: Client) -> str:
    """Return the first address that the client was given, whichever replica leads."""
    return client._caller.replicas.addresses[0]


def authority_of_new_jobs(client: Client) -> str:
    """Return the authority of the checkpoint location of a new job: of all cells the same, since a job may be moved."""
    return NAME_SERVICE if client.cell else default_authority(client.addresses)
