"""The lease of a session: its TTL, counted on this process's own clock, and its renewal."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from milepost.core.calls import answers
from milepost.core.calls.calls import ATTEMPT_TIMEOUT, Caller, Reply
from milepost.core.calls.request import Request, call_of
from milepost.core.clock import Clock
from milepost.core.effects import Operation, Sleep
from milepost.core.standstill import INTERPRETER, Runner, Standstill
from milepost.errors import MilepostError, SessionExpired, SessionLost
from milepost.operations.handles import KEEP_SESSION_ALIVE
from milepost.types import SessionInfo
from milepost.wire import Code

log = logging.getLogger("milepost.sessions")


class _Named(Protocol):
    @property
    def id(self) -> str: ...


S = TypeVar("S", bound=_Named)


class Lease:
    """The time for which a session is certainly alive. A lost lease stays lost: a program that was told of the loss
    must not see the session alive later.

    Any thread may read the lease; only the keeper of the session, its thread or task, renews it.
    """

    def __init__(self, session: str, ttl: float, since: float, clock: Clock) -> None:
        self.session = session
        self.ttl = ttl
        self.standstill = Standstill(clock)
        self._clock = clock
        self._expires = since + ttl
        self._reason: str | None = None

    @property
    def expires_in(self) -> float:
        """Seconds for which the session is certainly alive; 0 once the lease is lost."""
        return 0.0 if self.lost else max(0.0, self._expires - self._clock())

    @property
    def lost(self) -> bool:
        """Return whether the lease may have expired by this process's clock, or the service has reported its end."""
        if self._reason is None and self._clock() >= self._expires:
            self._reason = f"not renewed within {self.ttl:g} s{self._meanwhile()}"
        return self._reason is not None

    @property
    def reason(self) -> str:
        """The reason why the lease is lost; empty while it is not lost."""
        return (self._reason or "") if self.lost else ""

    def renewed(self, since: float, ttl: float) -> None:
        """Extend the lease to ``ttl`` seconds after ``since``, the time at which the request that renewed it began. A
        lost lease stays lost.
        """
        if not self.lost:
            self._expires = max(self._expires, since + ttl)
            self.standstill.forget()

    def end(self, reason: str) -> None:
        """End the lease because of ``reason``. A lease that has ended keeps its first reason."""
        if self._reason is None:
            self._reason = reason

    def refused(self, reason: str) -> None:
        """End the lease because the service refused to renew it, for the ``reason`` in its answer. If the keeper had
        stood still, the lease's reason says so, too.
        """
        self.end(f"{reason}{self._meanwhile()}")

    def raise_if_lost(self) -> None:
        """Raise `SessionExpired` if the lease is lost."""
        if self.lost:
            raise SessionExpired(Code.SESSION_EXPIRED, f"session {self.session}: {self.reason}")

    @property
    def stood_still(self) -> float:
        """The seconds for which the session's keeper could not run since the last renewal; 0 if that was less than half
        of the TTL.

        A renewal is due when a third of the TTL has passed, so a standstill that alone loses a lease lasts two thirds
        of the TTL or more.
        """
        seconds = self.standstill.seconds
        return seconds if seconds * 2 > self.ttl else 0.0

    def _meanwhile(self) -> str:
        return f"; meanwhile {self.standstill.describe()}" if self.stood_still else ""


def keep(caller: Caller, lease: Lease, runner: Runner = INTERPRETER) -> Operation[str]:
    """Renew ``lease`` each time a third of its TTL has passed, until it is lost; return why it was lost.

    ``runner`` describes the thread or event loop in which this operation runs, for the case that a standstill is why.
    """
    lease.standstill.runner = runner
    return (yield from lease.standstill.watch(_keep(caller, lease)))


def _keep(caller: Caller, lease: Lease) -> Operation[str]:
    pause = lease.ttl / 3
    while not lease.lost:
        yield Sleep(min(pause, lease.expires_in))
        if lease.lost:
            break
        try:
            reply = yield from _renew(caller, lease)
            lease.renewed(reply.began, reply.value.ttl)
        except SessionLost as error:
            lease.refused(str(error))
        except MilepostError as error:
            # After any error, such as an outage or an expired token, renewing is tried again until the lease ends.
            log.warning(
                "session %s could not be renewed, trying again while its lease lasts (%.1f s left): %s",
                lease.session,
                lease.expires_in,
                error,
            )
            pause = min(1.0, lease.ttl / 10)
        else:
            pause = max(lease.ttl / 30, lease.expires_in - lease.ttl * 2 / 3)
    return lease.reason


def report_lost(session: S, reason: str, on_lost: Callable[[S, str], None] | None) -> None:
    """Log that ``session`` is lost for this ``reason``, and call the caller's function ``on_lost``. An exception of the
    function is only logged.
    """
    log.warning("session %s is lost, and its locks and epoch with it: %s", session.id, reason)
    if on_lost is None:
        return
    try:
        on_lost(session, reason)
    except Exception:
        log.exception("the on_lost function of session %s raised an exception", session.id)


def _renew(caller: Caller, lease: Lease) -> Operation[Reply[SessionInfo]]:
    # The attempt_timeout is short: after an attempt at a leader that hangs, there must be time to renew the lease at
    # another replica.
    reader = answers.document(answers.session_of(lease.session))
    request = Request(*call_of(KEEP_SESSION_ALIVE, lease.session), reader)
    attempt_timeout = min(ATTEMPT_TIMEOUT, max(0.25, lease.ttl / 6))
    return (yield from caller.call(request, timeout=lease.expires_in, attempt_timeout=attempt_timeout))
