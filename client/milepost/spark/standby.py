"""Standing by for the epoch: a session that outlives outages, and a campaign without end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from milepost.client import Client
from milepost.core.outages import OUTAGES_OR_DOUBT
from milepost.errors import EpochHeld, SessionLost
from milepost.session import Session
from milepost.store import StateHandleStore

_log = logging.getLogger(__name__)
_PAUSE = 1.0

OnLost = Callable[[Session, str], None]


def campaign(
    client: Client, holder: str, store: str, ttl: float, wait: float | None, on_lost: OnLost
) -> tuple[Session, StateHandleStore]:
    """A session and the store that it leads, after ``wait`` seconds at most (None: for ever).

    A session that is lost while it stands by (an outage that outlasted it) is replaced. Raises `EpochHeld` when the
    wait ran out, and whatever the first session meets: an address that nobody answers is no outage.
    """
    until = None if wait is None else time.monotonic() + wait
    session = client.session(holder, ttl, on_lost=on_lost, timeout=_within(client, until))
    while True:
        handles = session.store(store)
        try:
            _win(handles, until)
        except SessionLost as error:
            if _over(until):
                raise
            _log.warning("the session was lost while standing by: %s", error)
            session.close()
            session = _another_session(client, holder, ttl, until, on_lost)
        except BaseException:
            session.close()
            raise
        else:
            return session, handles


def _win(handles: StateHandleStore, until: float | None) -> None:
    """Ask at once, to be able to say who leads, and then wait: for that driver's end, or for that of an outage."""
    try:
        handles.campaign(0.0)
    except (EpochHeld, *OUTAGES_OR_DOUBT) as error:
        if _over(until):
            raise
        who = f"{error.holder} leads" if isinstance(error, EpochHeld) else f"{error}, so nobody knows who leads"
        _log.info("standing by: %s %s", who, handles.name)
        handles.campaign(None if until is None else max(0.0, until - time.monotonic()))


def _another_session(client: Client, holder: str, ttl: float, until: float | None, on_lost: OnLost) -> Session:
    while True:
        try:
            return client.session(holder, ttl, on_lost=on_lost, timeout=_within(client, until))
        except OUTAGES_OR_DOUBT:
            if _over(until):
                raise
            time.sleep(_PAUSE)


def _within(client: Client, until: float | None) -> float:
    """Seconds that a new session may take: the client's, but no more than are left, and one to ask at all."""
    return client.timeout if until is None else min(client.timeout, max(1.0, until - time.monotonic()))


def _over(until: float | None) -> bool:
    return until is not None and time.monotonic() >= until
