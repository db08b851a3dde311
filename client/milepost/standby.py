"""Campaigns for a driver's epoch, also during outages of the service, and begins a new session when the driver's
session is lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from milepost.client import Client, authority_of_new_jobs, first_address
from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.core.checkpoint_location import CheckpointLocation, checkpoint_location
from milepost.errors import Closed, EpochHeld, Fenced, JobElsewhere, MilepostError, SessionLost
from milepost.session import Session
from milepost.store import StateHandleStore
from milepost.types import Process, Wish

_log = logging.getLogger("milepost.jobs")
_PAUSE = 1.0  # seconds to pause before the driver stands by again

_T = TypeVar("_T")


@dataclass(frozen=True)
class Leadership:
    """The leadership over a store: ``session`` holds the epoch under which ``store`` is changed, and ``client`` is that
    of the deployment that has the store.
    """

    client: Client
    session: Session
    store: StateHandleStore

    def location(self, authority: str | None = None, token_url: str | None = None) -> CheckpointLocation:
        """Return the checkpoint location of the job of the store, for its files under this epoch. Spark gets tokens at
        ``token_url``, by default at the first address: any will do, since each replica redirects to the leader.
        """
        assert self.store.epoch is not None
        return checkpoint_location(
            # the leader is first, since each of the many Hadoop file systems in a query asks the first address first
            self.client.addresses,
            self.store.name,
            self.store.epoch,
            authority=authority or authority_of_new_jobs(self.client),
            credential=self.store.file_credential(),
            token_url=token_url or first_address(self.client),
        )


class Standby:
    """A driver's candidacy for the epoch of ``store``, for at most ``wait`` seconds (None: for ever).

    If the client has several cells, the store is looked for in all of them, and begins in one if none has it.

    The candidate waits through an outage of the service as it waits while another driver leads. If its session is lost
    meanwhile, for example in an outage longer than the TTL, the candidate begins a new one. It also begins a new one if
    the service granted the epoch only after the client had counted the session as lost. ``on_lost`` is called, from a
    thread of the session, when the newest session is lost; ``prepare`` is called once, when another driver leads,
    with the client of the store's deployment.
    ``process`` describes the driver's process to people who look at the job. ``on_wish`` is called, from a thread of
    its own, if a person wishes that this driver stops or hands over, once it has taken over. With ``if_stopped``, the
    candidate may lead a job that a person has stopped. At the end of a ``with`` block, the driver resigns the epoch.
    """

    def __init__(
        self,
        client: Client,
        holder: str,
        store: str,
        ttl: float,
        wait: float | None,
        on_lost: Callable[[], None] = lambda: None,
        prepare: Callable[[Client], None] | None = None,
        process: Process | None = None,
        on_wish: Callable[[Wish], None] | None = None,
        *,
        if_stopped: bool = False,
    ) -> None:
        self._session: Session | None = None
        self._client = self._client_of_store = client
        self._holder = holder
        self._process = process
        self._store = store
        self._ttl = ttl
        self._wait = wait
        self._until: float | None = None
        self.wait_anew()
        self._on_lost = on_lost
        self._prepare = prepare
        self._on_wish = on_wish
        self._if_stopped = if_stopped
        self._leadership: Leadership | None = None
        self._cancelled = False
        self._waited = False  # whether the log already says that this driver stands by

    @property
    def over(self) -> bool:
        """Return whether the wait has ended or the candidacy was cancelled."""
        return self._cancelled or (self._until is not None and time.monotonic() >= self._until)

    def __enter__(self) -> Standby:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.resign()

    def take_over(self, take: Callable[[Leadership], _T]) -> _T:
        """Wait for the epoch, as `lead` does; call ``take`` with the leadership and return its result.

        If ``take`` fails because another driver was granted the epoch, the session was lost, or the service is
        unavailable, this driver stands by again. If the candidacy is over, the call raises the error of ``take``
        instead. It raises any other error of ``take`` at once.
        """
        while True:
            leadership = self.lead()
            try:
                taken = take(leadership)
            except (Fenced, JobElsewhere, SessionLost, *OUTAGES_OR_DOUBT) as error:
                self._again(error)
            else:
                self._heed(leadership)
                return taken

    def lead(self) -> Leadership:
        """Wait for the epoch; return the leadership, whose session is alive.

        If the candidacy is over first, raises `EpochHeld`, `SessionLost` or the error of the outage that still goes on.
        The driver also waits for a service that has never answered, because the service may start later than its
        drivers. A permanent refusal, such as that of a token, is raised at once.
        """
        began = time.monotonic()
        while True:
            session = self._session = self._session or self._another_session()
            if self._cancelled:  # cancel() may have come before this session began, and then did not close the session
                session.close()
            handles = session.store(self._store)
            try:
                self._win(handles)
                session.raise_if_lost()  # the client may have counted the session as lost before the grant
            except JobElsewhere as error:
                self.leave()
                if self.over or self._client_of_store is self._client:
                    raise  # the client knows no other cell
                _log.warning("store %s: %s; standing by there", self._store, error)
                time.sleep(_PAUSE)
            except SessionLost as error:
                self.leave()
                if self.over:
                    raise
                _log.warning(
                    "the session was lost while standing by for store %s, standing by with another: %s",
                    self._store,
                    error,
                )
            else:
                if self._waited:
                    _log.warning(
                        "leading store %s now under epoch %s, after standing by for %.1f s",
                        self._store,
                        handles.epoch,
                        time.monotonic() - began,
                    )
                    self._waited = False
                else:
                    # If the program has set up no logging, Python shows warnings only, and this line must be seen.
                    level = logging.INFO if _log.hasHandlers() else logging.WARNING
                    _log.log(level, "leading store %s now under epoch %s", self._store, handles.epoch)
                self._leadership = Leadership(self._client_of_store, session, handles)
                return self._leadership

    def wait_anew(self) -> None:
        """Restart the time limit: the next `lead` waits for the full ``wait`` seconds again."""
        self._until = None if self._wait is None else time.monotonic() + self._wait

    def resign(self) -> None:
        """Give up the epoch and then end the session, so that the next driver can lead at once."""
        leadership = self._leadership
        try:
            if leadership is not None and not leadership.session.lost:
                leadership.store.resign()
        except MilepostError as error:
            _log.warning("the epoch could not be given up, it ends with the session: %s", error)
        self.leave()

    def leave(self) -> None:
        """End the session; this also ends the epoch if the service granted it one."""
        session, self._session, self._leadership = self._session, None, None
        if session is not None:
            session.close()

    def cancel(self) -> None:
        """End the candidacy permanently, from another thread: this driver cannot lead any more."""
        self._cancelled = True
        # ``_session`` stays set, so that the driver's own thread sees that the session has ended.
        session = self._session
        if session is not None:
            session.close()

    def _heed(self, leadership: Leadership) -> None:
        """Wait in a thread for the wish of a person that this leadership ends, and call ``on_wish`` then."""
        on_wish = self._on_wish
        if on_wish is None:
            return

        def heed() -> None:
            try:
                wish = leadership.store.wait_for_wish()
            except Closed:
                return  # the driver has ended
            except MilepostError as error:
                _log.warning(
                    "store %s: the service cannot be asked for wishes of people, only SIGTERM stops this driver: %s",
                    self._store,
                    error,
                )
                return
            if wish is not None and leadership is self._leadership:
                _log.warning(
                    "store %s: %s asks this driver to %s (reason: %s): it finishes its batch, and resigns",
                    self._store,
                    wish.person,
                    "stop" if wish.kind == "stop" else "hand over to a standby",
                    wish.reason or "-",
                )
                on_wish(wish)

        threading.Thread(target=heed, name=f"milepost-wishes-{leadership.session.id}", daemon=True).start()

    def _again(self, error: MilepostError) -> None:
        """Prepare to stand by again, because ``error`` kept this driver from using the epoch. Raises ``error`` if the
        candidacy is over.
        """
        self.leave()
        if self.over:
            raise error
        _log.warning("store %s could not be taken over, standing by again: %s", self._store, error)
        self._waited = True
        time.sleep(_PAUSE)

    def _lost(self, session: Session, _reason: str) -> None:
        if session is self._session:  # skip a session that the driver left earlier
            self._on_lost()

    def _win(self, handles: StateHandleStore) -> None:
        """Campaign first without waiting, so that the log can name the present leader; then wait for the epoch."""
        try:
            handles.campaign(0.0, if_stopped=self._if_stopped)
        except (EpochHeld, *OUTAGES_OR_DOUBT) as error:
            if self.over:
                raise
            if not isinstance(error, EpochHeld):
                _log.warning("standing by: %s; it is not known who leads %s", error, self._store)
            elif not error.stopped:  # the campaign itself says who has stopped the job
                _log.warning("standing by: %s leads %s", error.holder, self._store)
            self._waited = True
            prepare, self._prepare = self._prepare, None
            if prepare is not None and isinstance(error, EpochHeld):
                prepare(self._client_of_store)
            left = None if self._until is None else max(0.0, self._until - time.monotonic())
            handles.campaign(left, if_stopped=self._if_stopped)

    def _session_timeout(self) -> float:
        """Return the most seconds that beginning a session may take: the client's timeout or, if less, the rest of the
        wait, but at least one.
        """
        timeout = self._client.timeout
        return timeout if self._until is None else min(timeout, max(1.0, self._until - time.monotonic()))

    def _another_session(self) -> Session:
        away = False
        while True:
            timeout = self._session_timeout()
            try:
                self._client_of_store = self._client.of_job(self._store, begin=True, timeout=timeout)
                return self._client_of_store.session(
                    self._holder, self._ttl, on_lost=self._lost, process=self._process, timeout=timeout
                )
            except OUTAGES_OR_DOUBT as error:
                if self.over:
                    raise
                if not away:
                    _log.warning("standing by for store %s, the service gives no session yet: %s", self._store, error)
                    away = self._waited = True
                time.sleep(_PAUSE if self._until is None else min(_PAUSE, max(0.0, self._until - time.monotonic())))
