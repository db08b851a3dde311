"""Bound the time that a slow peer may take: one rule for heads, bodies and answers, and a check of each connection."""

from __future__ import annotations

import asyncio
from typing import Final

from milepost_server.http.connection.closing import LingeringTransport

_LOOKS: Final = 10
"""How many times a connection is checked within the time that its peer has."""
_STALL_SECONDS: Final = 1.0
_LINGER_SECONDS: Final = 5.0

LEAST_BYTES_PER_SECOND: Final = 1024


class PeerTimeBudget:
    """The number of seconds that the server still waits for a peer.

    Waiting uses up the budget, and transferred bytes refill it: by one second for each `LEAST_BYTES_PER_SECOND` bytes,
    up to the initial ``seconds``. So the wait for a silent peer ends after ``seconds``, and for a peer below that rate
    a little later. Time in which the server does not wait for the peer does not count.
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
    """The guard of one connection, which closes it if the peer does not send what is due, or does not read.

    A check is cheap, and there are only a few each minute; requests, reads and writes set and cancel no timer of their
    own. A peer is never late while the server does not read from it.
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
        """Begin to wait for a head, which must be complete within the time that a peer has."""
        self._due = self._loop.time() + self._seconds

    def idle(self, seconds: float) -> None:
        """Begin to wait for the next head, which must begin within ``seconds``."""
        self._due = self._loop.time() + seconds

    def linger(self) -> None:
        """Begin to wait for the peer to close the connection too."""
        self._due = self._loop.time() + min(_LINGER_SECONDS, self._seconds)

    def rest(self) -> None:
        """Stop waiting: the peer need not send anything now."""
        self._due = None

    def end(self) -> None:
        """Stop checking."""
        self._timer.cancel()

    def _look(self) -> None:
        now, every = self._loop.time(), self._seconds / _LOOKS
        waited, self._looked = now - self._looked, now
        stalled = waited - every
        if stalled > _STALL_SECONDS:  # this process itself was paused, and has not yet read what came meanwhile
            waited = every
            self._due = None if self._due is None else self._due + stalled
        self._timer = self._loop.call_later(every, self._look)
        self._look_at_reader(waited)
        if self._due is not None and now >= self._due:
            if self._transport.hung_up:
                self._transport.abort()
            elif self._transport.is_reading():
                self._due = None  # the peer has sent all, but may still read the end of an answer
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
