"""Standing by for the epoch: sessions that are replaced when they are lost, and a campaign without end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from milepost.client import Client
from milepost.core.outages import OUTAGES_OR_DOUBT
from milepost.errors import EpochHeld, MilepostError, SessionLost
from milepost.session import Session
from milepost.store import StateHandleStore

_log = logging.getLogger(__name__)
_PAUSE = 1.0

OnLost = Callable[[Session, str], None]


class Standby:
    """A driver's candidacy for the epoch of ``store``: nothing but ``wait`` (seconds, None: no end) ends it.

    A session that is lost meanwhile (an outage that outlasted it) is replaced, also when the epoch was granted to it
    after this side had given it up. ``on_lost`` is told of each.
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
        """Whether the wait has run out, or the candidacy was withdrawn."""
        return self._withdrawn or (self._until is not None and time.monotonic() >= self._until)

    def lead(self) -> StateHandleStore:
        """Wait for the epoch; the store, under it and under a session that lives.

        Raises `EpochHeld` when the wait ran out, and whatever the very first session meets: an address that nobody
        answers is no outage.
        """
        began = time.monotonic()
        while True:
            session = self.session = self.session or self._another_session()
            if self._withdrawn:  # which may not have seen this session
                session.close()
            handles = session.store(self._store)
            try:
                self._win(handles)
                session.raise_if_lost()  # an answer that came too late was not for a living one
            except SessionLost as error:
                self.leave()
                if self.over:
                    raise
                _log.warning(
                    "the session was lost while standing by for %s, standing by with another: %s", self._store, error
                )
            else:
                if self._waited:
                    _log.warning(
                        "leading %s now, epoch %s, after %.1f s", self._store, handles.epoch, time.monotonic() - began
                    )
                    self._waited = False
                self._handles = handles
                return handles

    @property
    def led_by(self) -> Session:
        """The session that leads, after `lead`."""
        assert self.session is not None
        return self.session

    def again(self, error: MilepostError) -> None:
        """Stand by anew, after the epoch was granted and could not be made use of. Raises ``error`` if it is over."""
        self.leave()
        if self.over:
            raise error
        _log.warning("%s could not be taken over, standing by again: %s", self._store, error)
        self._waited = True
        time.sleep(_PAUSE)

    def resign(self) -> None:
        """Give the epoch up, and then the session: whoever waits goes on at once."""
        try:
            if self._handles is not None and not self.led_by.lost:
                self._handles.resign()
        except MilepostError as error:
            _log.warning("the epoch is left to the session's end: %s", error)
        self.leave()

    def leave(self) -> None:
        """End the session, and with it the epoch if the service granted it one."""
        session, self.session, self._handles = self.session, None, None
        if session is not None:
            session.close()

    def withdraw(self) -> None:
        """End the candidacy for good, from another thread: this driver cannot lead any more."""
        self._withdrawn = True
        session = self.session  # left where it is: the driver's own thread ends its steps by it
        if session is not None:
            session.close()

    def _win(self, handles: StateHandleStore) -> None:
        """Ask at once, to be able to say who leads, and then wait: for that driver's end, or for that of an outage."""
        try:
            handles.campaign(0.0)
        except (EpochHeld, *OUTAGES_OR_DOUBT) as error:
            if self.over:
                raise
            who = f"{error.holder} leads" if isinstance(error, EpochHeld) else f"{error}, so nobody knows who leads"
            _log.warning("standing by: %s %s", who, self._store)
            self._waited = True
            handles.campaign(None if self._until is None else max(0.0, self._until - time.monotonic()))

    def _within(self) -> float:
        """Seconds that a new session may take: the client's, but no more than are left, and one to ask at all."""
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
