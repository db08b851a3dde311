"""Standing by for the epoch: a campaign without end, whose session is replaced when it is lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from milepost.client import Client
from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.errors import EpochHeld, MilepostError, SessionLost
from milepost.session import Session
from milepost.store import StateHandleStore

_log = logging.getLogger(__name__)
_PAUSE = 1.0

OnLost = Callable[[Session, str], None]


class Standby:
    """A driver's candidacy for the epoch of ``store``, for at most ``wait`` seconds (None: for ever).

    A session that is lost meanwhile, as in an outage that outlasts it, is replaced by a new one. So is a session to
    which the epoch was granted only after this side had counted it as lost. ``on_lost`` is called for each lost one.
    """

    def __init__(
        self, client: Client, holder: str, store: str, ttl: float, wait: float | None, on_lost: OnLost
    ) -> None:
        self.session: Session | None = None
        self._client = client
        self._holder = holder
        self._store = store
        self._ttl = ttl
        self._until = None if wait is None else time.monotonic() + wait
        self._on_lost = on_lost
        self._handles: StateHandleStore | None = None
        self._answered = False
        self._withdrawn = False
        self._waited = False

    @property
    def over(self) -> bool:
        """Return whether the wait has ended or the candidacy was withdrawn."""
        return self._withdrawn or (self._until is not None and time.monotonic() >= self._until)

    def lead(self) -> StateHandleStore:
        """Wait for the epoch; return the store under it, with a session that is alive.

        Raises `EpochHeld` if the wait ends first, and any error that the very first session meets: an address at which
        nobody answers is not an outage.
        """
        began = time.monotonic()
        while True:
            session = self.session = self.session or self._another_session()
            if self._withdrawn:  # withdraw() may not have seen this session
                session.close()
            handles = session.store(self._store)
            try:
                self._win(handles)
                session.raise_if_lost()  # the answer may have come after the session's end
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
                self._handles = handles
                return handles

    @property
    def led_by(self) -> Session:
        """The session that leads; it exists after `lead`."""
        assert self.session is not None
        return self.session

    def again(self, error: MilepostError) -> None:
        """Stand by again, after the epoch was granted but could not be used.

        Raises ``error`` if the candidacy is over.
        """
        self.leave()
        if self.over:
            raise error
        _log.warning("store %s could not be taken over, standing by again: %s", self._store, error)
        self._waited = True
        time.sleep(_PAUSE)

    def resign(self) -> None:
        """Give up the epoch, and then the session, so that the next driver can lead at once."""
        try:
            if self._handles is not None and not self.led_by.lost:
                self._handles.resign()
        except MilepostError as error:
            _log.warning("the epoch could not be given up, it ends with the session: %s", error)
        self.leave()

    def leave(self) -> None:
        """End the session, and with it the epoch if the service granted it one."""
        session, self.session, self._handles = self.session, None, None
        if session is not None:
            session.close()

    def withdraw(self) -> None:
        """End the candidacy for good, from another thread: this driver cannot lead any more."""
        self._withdrawn = True
        session = self.session  # not cleared: the driver's own thread ends its steps by this session
        if session is not None:
            session.close()

    def _win(self, handles: StateHandleStore) -> None:
        """Campaign, at first without waiting, so that the log can say who leads; then wait for the epoch."""
        try:
            handles.campaign(0.0)
        except (EpochHeld, *OUTAGES_OR_DOUBT) as error:
            if self.over:
                raise
            who = f"{error.holder} leads" if isinstance(error, EpochHeld) else f"{error}; it is not known who leads"
            _log.warning("standing by: %s %s", who, self._store)
            self._waited = True
            handles.campaign(None if self._until is None else max(0.0, self._until - time.monotonic()))

    def _within(self) -> float:
        """Return the seconds that a new session may take: the client's timeout, but no more than are left, and at least
        1.
        """
        timeout = self._client.timeout
        return timeout if self._until is None else min(timeout, max(1.0, self._until - time.monotonic()))

    def _another_session(self) -> Session:
        while True:
            try:
                session = self._client.session(self._holder, self._ttl, on_lost=self._on_lost, timeout=self._within())
            except OUTAGES_OR_DOUBT:
                if not self._answered or self.over:
                    raise
                time.sleep(_PAUSE)
            else:
                self._answered = True
                return session
