"""All connections of a server together: how many there may be, and how much may lie unsent in them."""

from __future__ import annotations

import contextlib
import logging
import resource
from typing import Final, Protocol

log = logging.getLogger("milepost.http")

MOST_CONNECTIONS: Final = 16_384
MOST_UNSENT_BYTES: Final = 256 * 1024 * 1024
_RESERVED_FILES: Final = 512
"""Of the files that this process may have open, those that are no connections: blobs, the database, other services, and
connections that the system has taken while others were still being closed."""


class Peer(Protocol):
    """A connection, as far as it can be given up."""

    def give_up(self) -> None:
        """Let go of it at once."""


class Connections:
    """Makes room where there is none: a connection on which no request runs goes first, the longest waiting before the
    others; of the answers that nobody reads, the oldest.
    """

    def __init__(self, most: int = MOST_CONNECTIONS, most_unsent: int = MOST_UNSENT_BYTES) -> None:
        self._most = most
        self._most_unsent = most_unsent
        self._open: set[Peer] = set()
        self._spare: dict[Peer, None] = {}
        self._unsent: dict[Peer, int] = {}
        self._all_unsent = 0

    def opened(self, peer: Peer) -> bool:
        """Take a new one in; False if there is no room, since requests run on all the others."""
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
        """Forget it."""
        self._open.discard(peer)
        self._spare.pop(peer, None)
        self.flows(peer)

    def busy(self, peer: Peer) -> None:
        """A request has begun on it."""
        self._spare.pop(peer, None)

    def spare(self, peer: Peer) -> None:
        """Its requests are answered."""
        if peer in self._open:
            self._spare[peer] = None

    def waits(self, peer: Peer, unsent: int) -> None:
        """It has so many bytes that its reader does not take."""
        self.flows(peer)
        self._unsent[peer] = unsent
        self._all_unsent += unsent
        while len(self._unsent) > 1 and self._all_unsent > self._most_unsent:
            oldest = next(iter(self._unsent))
            log.warning("cut a connection whose reader is slow: too much lies unsent in all of them together")
            self.closed(oldest)
            oldest.give_up()

    def flows(self, peer: Peer) -> None:
        """Its reader has caught up."""
        self._all_unsent -= self._unsent.pop(peer, 0)


def room_for_connections() -> int:
    """How many connections fit beside the other files that this process may have open; that limit is raised as far as
    the system lets it be.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):  # then it stays as it is, and is asked for below
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = wanted if soft == resource.RLIM_INFINITY else soft
    return max(16, min(MOST_CONNECTIONS, files - min(_RESERVED_FILES, files // 2)))
