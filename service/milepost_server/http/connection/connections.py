"""The bounds on all connections of a server together: their number, their unsent bytes, and their incomplete bodies.

Spark keeps a file open while a task works, so the sender of a body may be silent for minutes. Meanwhile the body holds
resources: an open file, and up to `HELD_BYTES` that are not written yet. These are limited for all bodies together.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Final, Protocol

from sortedcontainers import SortedKeyList

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.blobs.delivery import AHEAD_BYTES
from milepost_server.http.connection.slow_peers import LEAST_BYTES_PER_SECOND

log = logging.getLogger("milepost.http")

MOST_CONNECTIONS: Final = 16_384
MOST_UNSENT_BYTES: Final = 256 * 1024 * 1024
_RESERVED_FILES: Final = 512
"""How many file descriptors connections of clients must leave free. The process needs them for blobs, the database,
connections to other services, and new connections that are accepted while old ones are still being closed.
"""


_BODIES_PART: Final = 3
"""The most incomplete bodies are the most connections divided by this number. A body counts like a connection, so
bodies together with their connections take two thirds of the room at most.
"""

_STREAMS_PART: Final = 4
"""The most streams of events are the most connections divided by this number: a stream keeps its connection for as long
as it lasts, and leaves room for requests.
"""

HELD_BYTES: Final = 1024 * 1024
"""The most bytes of one body that are in memory, if blobs are stored as files. S3 takes parts of 5 MiB, and HDFS parts
of 8 MiB.
"""
_MOST_HELD_BYTES: Final = 256 * 1024 * 1024
LEAST_SILENT_SECONDS: Final = 10.0
"""A body is cut to make room for others only if its sender has been silent for this many seconds."""
_ENOUGH_BYTES: Final = int(LEAST_SILENT_SECONDS * LEAST_BYTES_PER_SECOND)
"""A sender counts as silent until it has sent this many more bytes. Otherwise a client could avoid being cut by sending
one byte every few seconds.
"""
_WAIT_SECONDS: Final = 20.0
"""The seconds for which a body waits for free memory. It becomes free when other bodies end, or are cut because their
sender is silent.
"""
_LOOK_SECONDS: Final = 1.0


class OpenBody:
    """A request body whose end has not come yet. The server limits the number and the memory of such bodies
    (`OpenBodies`).

    ``is_cut`` is whether the server ends this body to make room for others. ``silent_since`` is the monotonic time from
    which the sender counts as silent; time in which the server did not wait for the sender is left out.
    """

    def __init__(self, bodies: OpenBodies) -> None:
        self.is_cut = False
        self.held = 0
        self.silent_since = 0.0
        self._bodies = bodies
        self._patience: asyncio.Timeout | None = None
        self._waited = 0.0
        self._sent = 0

    @contextmanager
    def waits(self, patience: asyncio.Timeout) -> Iterator[None]:
        """Count the sender as silent within the block, in which the server waits for it. If the body is cut meanwhile,
        the timeout ``patience`` of this wait expires at once.
        """
        began = self._bodies.clock()
        self._patience, self.silent_since = patience, began - self._waited
        self._bodies.silent.add(self)
        try:
            yield
        finally:
            self._patience = None
            self._bodies.silent.discard(self)
            self._waited += self._bodies.clock() - began

    async def takes(self, size: int) -> None:
        """Count ``size`` bytes that came, and wait until there is memory to hold them. Raises a ``too-many-requests``
        problem if there is none in time.
        """
        self._sent += size
        if self._sent >= _ENOUGH_BYTES:
            self._sent, self._waited = 0, 0.0
        if more := min(self.held + size, HELD_BYTES) - self.held:
            await self._bodies.room_for(more)
            self.held += more

    def cut(self) -> None:
        """Cut the body to make room for others, and end the server's wait for its sender."""
        self.is_cut = True
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())


class OpenBodies:
    """All incomplete request bodies of a server, and the memory that they use. ``clock`` gives monotonic seconds.

    ``silent`` has the bodies whose sender the server waits for, the sender that has been silent for longest first.
    """

    def __init__(self, clock: Callable[[], float], most_bytes: int = _MOST_HELD_BYTES) -> None:
        self.clock = clock
        self.silent: SortedKeyList[OpenBody, float] = SortedKeyList(key=attrgetter("silent_since"))
        self._most_bytes = most_bytes
        self._held = 0
        self._open: set[OpenBody] = set()
        self._waiting: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def begun(self) -> Iterator[OpenBody]:
        """Return a new body, which counts as incomplete within the block."""
        body = OpenBody(self)
        self._open.add(body)
        try:
            yield body
        finally:
            self._end(body)

    def cut_one(self) -> bool:
        """Cut the body whose sender has been silent for longest, and return True; return False if no sender has been
        silent for `LEAST_SILENT_SECONDS`.
        """
        body = self.silent[0] if self.silent else None
        if body is None or self.clock() - body.silent_since < LEAST_SILENT_SECONDS:
            return False
        log.warning("cut a body whose sender was silent: there is no room for others")
        body.cut()
        self._end(body)
        return True

    async def room_for(self, size: int) -> None:
        """Wait until ``size`` bytes of the memory for bodies are free, and reserve them. Raises a ``too-many-requests``
        problem if they do not become free in time.
        """
        end = self.clock() + _WAIT_SECONDS
        while self._held + size > self._most_bytes:
            if self.cut_one():
                continue
            if self.clock() >= end:
                raise problem(Code.TOO_MANY_REQUESTS, "too many bodies are coming in at the same time")
            freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(freed)
            try:
                await asyncio.wait((freed,), timeout=_LOOK_SECONDS)
            finally:
                self._waiting.discard(freed)
        self._held += size

    def _end(self, body: OpenBody) -> None:
        self._open.discard(body)
        self.silent.discard(body)
        self._held -= body.held
        body.held = 0
        for freed in self._waiting:
            if not freed.done():
                freed.set_result(None)


class Peer(Protocol):
    """The interface of a connection that the server may close to make room for other connections."""

    def give_up(self) -> None:
        """Close the connection at once."""


class Connections:
    """All connections of a server. It limits their number, their incomplete bodies and their unsent bytes.

    An incomplete body counts like one more connection, since it may need an open file. To make room for a new
    connection or body, the server closes the connection without a running request that has waited longest; if there is
    none, it cuts the body whose sender has been silent for longest. To make room for unsent bytes, it closes the
    connection whose reader has been slow for longest. The unsent bytes of a slow connection count with ``ahead`` bytes
    more, for data that was read for the connection but not written to it yet. ``clock`` returns monotonic seconds.
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
        self._heads = 0
        self._unsent: dict[Peer, int] = {}
        self._all_unsent = 0

    @property
    def _incomplete(self) -> int:
        return len(self.bodies) + self._heads

    @property
    def most_streams(self) -> int:
        """The most connections on which a stream of events may last."""
        return max(1, self._most // _STREAMS_PART)

    def opened(self, peer: Peer) -> bool:
        """Accept a new connection. Return False if there is no room, because requests run on all other connections."""
        self._open.add(peer)
        if not self._make_room():
            return False
        self._spare[peer] = None
        return True

    @contextlib.contextmanager
    def body(self) -> Iterator[OpenBody]:
        """Return a new request body, which counts as incomplete within the block. Raises a ``too-many-requests``
        problem if there is no room.
        """
        with self.bodies.begun() as body:
            while self._incomplete > self._most_bodies and self.bodies.cut_one():
                pass
            if self._incomplete > self._most_bodies or not self._make_room():
                raise problem(Code.TOO_MANY_REQUESTS, "too many bodies are coming in at the same time")
            yield body

    def _make_room(self) -> bool:
        while len(self._open) + self._incomplete > self._most:
            if self._spare:
                oldest = next(iter(self._spare))
                self.closed(oldest)
                oldest.give_up()
            elif not self.bodies.cut_one():
                return False
        return True

    def hold_head(self) -> bool:
        """Count a head that waits for its body without the parser, like a body; return False if there is no room, so
        that it must not wait.
        """
        if self._incomplete >= self._most_bodies or len(self._open) + self._incomplete >= self._most:
            return False
        self._heads += 1
        return True

    def release_head(self) -> None:
        """Stop counting a head that waited for its body."""
        self._heads -= 1

    def closed(self, peer: Peer) -> None:
        """Stop counting a connection, because it was closed."""
        self._open.discard(peer)
        self._spare.pop(peer, None)
        self.flows(peer)

    def busy(self, peer: Peer) -> None:
        """Note that a request has begun on the connection."""
        self._spare.pop(peer, None)

    def spare(self, peer: Peer) -> None:
        """Note that all requests of the connection are answered, so that it may be closed to make room for other
        connections.
        """
        if peer in self._open:
            self._spare[peer] = None

    def waits(self, peer: Peer, unsent: int) -> None:
        """Note that the peer reads slowly: it has not taken ``unsent`` bytes that were written to its connection. If
        all connections together have too many unsent bytes, close those that have been slow for longest.
        """
        self.flows(peer)
        self._unsent[peer] = unsent + self._ahead
        self._all_unsent += unsent + self._ahead
        while len(self._unsent) > 1 and self._all_unsent > self._most_unsent:
            oldest = next(iter(self._unsent))
            log.warning("closed the connection of a slow reader: all connections together have too many unsent bytes")
            self.closed(oldest)
            oldest.give_up()

    def flows(self, peer: Peer) -> None:
        """Note that the peer has read what was sent to it."""
        self._all_unsent -= self._unsent.pop(peer, 0)


def room_for_connections() -> int:
    """Return how many connections this process may have, given its limit on open files and `_RESERVED_FILES`. Raises
    that limit first, as far as the system allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        # if the operating system refuses a higher limit, the present limit is used
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = wanted if soft == resource.RLIM_INFINITY else soft
    return max(16, min(MOST_CONNECTIONS, files - min(_RESERVED_FILES, files // 2)))
