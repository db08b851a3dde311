"""A blocking session, which its own thread keeps alive."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from types import TracebackType

from milepost.core.calls.calls import Caller
from milepost.core.lease import Lease, keep, report_lost
from milepost.core.objects import NotPicklable, session_repr
from milepost.core.service import END_SESSION_SECONDS, end_session
from milepost.core.store import StoreOperations
from milepost.core.store_calls import SessionContext
from milepost.drivers.blocking import BlockingDriver
from milepost.errors import Closed, MilepostError
from milepost.store import StateHandleStore

log = logging.getLogger("milepost.sessions")

OnLost = Callable[["Session", str], None]


class _Stopped(Exception):
    """Ends the thread that renews a session: the session was closed while the thread was waiting."""


class Session(NotPicklable):
    """A session with the service. A daemon thread renews the session each time a third of its TTL has passed, until the
    session is closed or lost.

    `Client.session` makes this object. Threads may share it. A forked process has no such thread: there the session
    counts as lost after one TTL, and closing the copy does not end the session of the parent.
    """

    def __init__(
        self, driver: BlockingDriver, caller: Caller, lease: Lease, holder: str, on_lost: OnLost | None
    ) -> None:
        self.holder = holder
        self._driver = driver
        self._caller = caller
        self._lease = lease
        self._on_lost = on_lost
        self._process = os.getpid()
        self._stop = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name=f"milepost-session-{lease.session}", daemon=True)
        self._keeper.start()

    def __repr__(self) -> str:
        return session_repr(self, self._lease, self.holder)

    @property
    def id(self) -> str:
        """The id by which the service knows the session."""
        return self._lease.session

    @property
    def ttl(self) -> float:
        """The TTL of the session in seconds."""
        return self._lease.ttl

    @property
    def lost(self) -> bool:
        """Return whether the session may have expired by this process's clock, or the service has reported its end. A
        lost session stays lost.
        """
        return self._lease.lost

    @property
    def expires_in(self) -> float:
        """Seconds for which the session is certainly alive, counted from before its last renewal was sent; 0 once it is
        lost.
        """
        return self._lease.expires_in

    @property
    def stood_still(self) -> float:
        """Seconds for which this process's Python stood still since the last renewal; 0 if that was less than half of
        the TTL.

        If the session is lost and the value is above 0, the standstill is the cause, and the error of `raise_if_lost`
        says what to do.
        """
        return self._lease.stood_still

    def raise_if_lost(self) -> None:
        """Raise `SessionExpired` if the session is lost: its locks and its epoch may belong to another session by
        now.
        """
        self._lease.raise_if_lost()

    def store(self, name: str) -> StateHandleStore:
        """Open a store to be changed in the name of this session. Raises `InvalidName`."""
        return StateHandleStore(self._driver, StoreOperations(self._caller, name, SessionContext(self._lease)))

    def close(self, *, timeout: float | None = None) -> None:
        """End the session at the service, and release all its locks. If the call fails within ``timeout`` (default:
        two) seconds, the session ends when its TTL has passed.
        """
        if self._stop.is_set() or self._process != os.getpid():
            return
        self._stop.set()
        try:
            self._driver.run(end_session(self._caller, self._lease, timeout))
        except MilepostError as error:
            log.warning("session %s could not be ended, it ends when its TTL runs out: %s", self.id, error)
        if self._keeper is not threading.current_thread():
            self._keeper.join(END_SESSION_SECONDS if timeout is None else timeout)

    def detach(self) -> None:
        """Stop keeping the session alive, without ending it: it lives on for its TTL, with its locks and its epoch.

        A program that knows the session's id can continue the session (`Client.session`). Later calls of `close` do
        nothing.
        """
        self._stop.set()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _keep(self) -> None:
        try:
            reason = self._driver.run(keep(self._caller, self._lease), self._pause)
        except (_Stopped, Closed):
            return
        if not self._stop.is_set():
            report_lost(self, reason, self._on_lost)

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Stopped
