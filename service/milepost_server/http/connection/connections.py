"""The bounds on all connections of a server together: their number, and the unsent bytes in them."""

from __future__ import annotations

import contextlib
import logging
import resource
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.blobs.delivery import AHEAD_BYTES
from milepost_server.http.connection.open_bodies import OpenBodies, OpenBody

log = logging.getLogger("milepost.http")

MOST_CONNECTIONS: Final = 16_384
MOST_UNSENT_BYTES: Final = 256 * 1024 * 1024
_RESERVED_FILES: Final = 512
"""How many of the files that this process may have open are kept from connections.

They are for blobs, the database, connections to other services, and connections that the system has accepted while
others were still being closed.
"""


_BODIES_PART: Final = 3
"""Bodies that are still coming, with their connections, take two thirds of the room at most: the rest is for others."""


class Peer(Protocol):
    """A connection that can be given up to make room."""

    def give_up(self) -> None:
        """Close the connection at once."""


class Connections:
    """All connections of a server. When there is no room, one of them is closed.

    A body that is still coming counts as another connection, since it may be written to a file meanwhile. To make room
    for a new connection or body, a connection without a running request is closed, the one that has waited longest; or
    else the body is cut whose sender has been silent for longest. To make room for unsent bytes, the connection whose
    reader has been slow for longest is closed; what waits behind them counts as ``ahead`` bytes for each connection.
    ``clock`` gives monotonic seconds.
    """

    def __init__(
        self,
        most: int = MOST_CONNECTIONS,
        most_unsent: int = MOST_UNSENT_BYTES,
        ahead: int = AHEAD_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bodies = OpenBodies(clock)
        self._most_bodies = max(1, most // _BODIES_PART)
        self._most = most
        self._most_unsent = most_unsent
        self._ahead = ahead
        self._open: set[Peer] = set()
        self._spare: dict[Peer, None] = {}
        self._unsent: dict[Peer, int] = {}
        self._all_unsent = 0

    def opened(self, peer: Peer) -> bool:
        """Accept a new connection. Return False if there is no room, since requests run on all others."""
        self._open.add(peer)
        if not self._make_room():
            return False
        self._spare[peer] = None
        return True

    @contextlib.contextmanager
    def body(self) -> Iterator[OpenBody]:
        """Count a body that is coming in this context. Raises a ``too-many-requests`` problem if there is no room."""
        with self.bodies.begun() as body:
            while len(self.bodies) > self._most_bodies and self.bodies.cut_one():
                pass
            if len(self.bodies) > self._most_bodies or not self._make_room():
                raise problem(Code.TOO_MANY_REQUESTS, "too many bodies are coming in at the same time")
            yield body

    def _make_room(self) -> bool:
        while len(self._open) + len(self.bodies) > self._most:
            if self._spare:
                oldest = next(iter(self._spare))
                self.closed(oldest)
                oldest.give_up()
            elif not self.bodies.cut_one():
                return False
        return True

    def closed(self, peer: Peer) -> None:
        """Forget a connection that is closed."""
        self._open.discard(peer)
        self._spare.pop(peer, None)
        self.flows(peer)

    def busy(self, peer: Peer) -> None:
        """Note that a request has begun on the connection."""
        self._spare.pop(peer, None)

    def spare(self, peer: Peer) -> None:
        """Note that all requests of the connection are answered."""
        if peer in self._open:
            self._spare[peer] = None

    def waits(self, peer: Peer, unsent: int) -> None:
        """Note that the connection has ``unsent`` bytes which its reader does not take, and more that wait for it."""
        self.flows(peer)
        self._unsent[peer] = unsent + self._ahead
        self._all_unsent += unsent + self._ahead
        while len(self._unsent) > 1 and self._all_unsent > self._most_unsent:
            oldest = next(iter(self._unsent))
            log.warning("closed the connection of a slow reader: all connections together have too many unsent bytes")
            self.closed(oldest)
            oldest.give_up()

    def flows(self, peer: Peer) -> None:
        """Note that the reader of the connection has caught up."""
        self._all_unsent -= self._unsent.pop(peer, 0)


def room_for_connections() -> int:
    """Return how many connections fit beside the other files that this process may have open.

    The limit on open files is raised first, as far as the system allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):  # then the limit stays as it is, and is read below
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = wanted if soft == resource.RLIM_INFINITY else soft
    return max(16, min(MOST_CONNECTIONS, files - min(_RESERVED_FILES, files // 2)))
