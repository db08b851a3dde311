"""The bounds on all connections of a server together: their number, and the unsent bytes in them."""

from __future__ import annotations

import contextlib
import logging
import resource
from typing import Final, Protocol

log = logging.getLogger("milepost.http")

MOST_CONNECTIONS: Final = 16_384
MOST_UNSENT_BYTES: Final = 256 * 1024 * 1024
_RESERVED_FILES: Final = 512
"""How many of the files that this process may have open are kept from connections.

They are for blobs, the database, connections to other services, and connections that the system has accepted while
others were still being closed.
"""


class Peer(Protocol):
    """A connection that can be given up to make room."""

    def give_up(self) -> None:
        """Close the connection at once."""


class Connections:
    """All connections of a server. When there is no room, one of them is closed.

    To make room for a new connection, one without a running request is closed, the one that has waited longest. To make
    room for unsent bytes, the connection whose reader has been slow for longest is closed.
    """

    def __init__(self, most: int = MOST_CONNECTIONS, most_unsent: int = MOST_UNSENT_BYTES) -> None:
        self._most = most
        self._most_unsent = most_unsent
        self._open: set[Peer] = set()
        self._spare: dict[Peer, None] = {}
        self._unsent: dict[Peer, int] = {}
        self._all_unsent = 0

    def opened(self, peer: Peer) -> bool:
        """Accept a new connection. Return False if there is no room, since requests run on all others."""
        self._open.add(peer)
        if len(self._open) > self._most:
            if not self._spare:
                return False
            oldest = next(iter(self._spare))
            self.closed(oldest)
            oldest.give_up()
        self._spare[peer] = None
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
        """Note that the connection has ``unsent`` bytes which its reader does not take."""
        self.flows(peer)
        self._unsent[peer] = unsent
        self._all_unsent += unsent
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
