"""Limits the time that a slow peer may take, by one rule for heads, bodies and answers."""

from __future__ import annotations

import asyncio
from typing import Final

from milepost_server.http.connection.closing import LingeringTransport

_LOOKS: Final = 10
"""How many times a connection is checked within the time limit of its peer."""
_STALL_SECONDS: Final = 1.0
_LINGER_SECONDS: Final = 5.0

LEAST_BYTES_PER_SECOND: Final = 1024


class PeerTimeBudget:
    """The number of seconds that the server still waits for a peer.

    Waiting uses up the budget, and transferred bytes refill it: by one second for each `LEAST_BYTES_PER_SECOND` bytes,
    up to the initial ``seconds``. So the wait for a silent peer ends after ``seconds``, and for a peer below that rate
    a little later. Only time in which the server waits for the peer counts.
    """

    __slots__ = ("_most", "left")

    def __init__(self, seconds: float) -> None:
        self._most = self.left = seconds

    def spend(self, seconds: float, moved: int = 0) -> None:
        """Count a wait of ``seconds`` in which ``moved`` bytes were transferred."""
        self.left = min(self._most, self.left - seconds + moved / LEAST_BYTES_PER_SECOND)

    @property
    def is_spent(self) -> bool:
        """Whether the budget is used up, so that the server stops waiting for the peer."""
        return self.left <= 0


class SlowPeerGuard:
    """Closes a connection if its peer does not send what is due, or does not read. ``seconds`` is the time limit for
    both.

    The guard checks a few times a minute, which is cheaper than a timer for each request, read and write. While the
    server has paused reading, the peer is never late.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: LingeringTransport, seconds: float) -> None:
        self._loop = loop
        self._transport = transport
        self._seconds = seconds
        self._due: float | None = None
        self._reader = PeerTimeBudget(seconds)
        self._sent = 0
        self._looked = loop.time()
        self._timer = loop.call_later(seconds / _LOOKS, self._look)

    def expect(self) -> None:
        """Begin to wait for the head of a request, which must be complete within the guard's time limit."""
        self._due = self._loop.time() + self._seconds

    def idle(self, seconds: float) -> None:
        """Begin to wait for the next request, whose head must begin within ``seconds``."""
        self._due = self._loop.time() + seconds

    def linger(self) -> None:
        """Begin to wait, for a few seconds, until the peer closes the connection too."""
        self._due = self._loop.time() + min(_LINGER_SECONDS, self._seconds)

    def rest(self) -> None:
        """Stop the time limit: no data from the peer is expected now."""
        self._due = None

    def end(self) -> None:
        """Stop checking, because the connection is closed."""
        self._timer.cancel()

    def _look(self) -> None:
        now, every = self._loop.time(), self._seconds / _LOOKS
        waited, self._looked = now - self._looked, now
        stalled = waited - every
        # if this process was paused, the peer's data may have arrived but not been read, so the peer gets more time
        if stalled > _STALL_SECONDS:
            waited = every
            self._due = None if self._due is None else self._due + stalled
        self._timer = self._loop.call_later(every, self._look)
        self._look_at_reader(waited)
        if self._due is not None and now >= self._due:
            if self._transport.hung_up:
                self._transport.abort()
            elif self._transport.is_reading():
                # close the connection without aborting it, since the late peer may still read the end of an answer
                self._due = None
                self._transport.close()

    def _look_at_reader(self, waited: float) -> None:
        unsent = self._transport.unsent
        sent = self._transport.written - unsent
        moved, self._sent = sent - self._sent, sent
        if not unsent:
            self._reader = PeerTimeBudget(self._seconds)
            return
        self._reader.spend(waited, moved)
        if self._reader.is_spent:
            self._transport.abort()
