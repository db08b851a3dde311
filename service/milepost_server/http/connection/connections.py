"""The bounds on all connections of a server together: their number, the unsent bytes in them, and bodies still coming.

Spark keeps a file open while it works, so that a body may be silent for minutes. What it holds meanwhile is bounded for
all bodies together: a file that is being written, and up to `HELD_BYTES` that are not written yet.
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
"""How many of the files that this process may have open are kept from connections.

They are for blobs, the database, connections to other services, and connections that the system has accepted while
others were still being closed.
"""


_BODIES_PART: Final = 3
"""Bodies that are still coming, with their connections, take two thirds of the room at most: the rest is for others."""

HELD_BYTES: Final = 1024 * 1024
"""So much of a body is in memory at most where blobs are files. S3 takes parts of 5 MiB, and HDFS of 8."""
_MOST_HELD_BYTES: Final = 256 * 1024 * 1024
LEAST_SILENT_SECONDS: Final = 10.0
"""Whoever has sent something since then is not cut to make room for others: at least `_ENOUGH_BYTES`."""
_ENOUGH_BYTES: Final = int(LEAST_SILENT_SECONDS * LEAST_BYTES_PER_SECOND)
"""A sender counts as silent until it has sent so many, or one byte every nine seconds would keep its place."""
_WAIT_SECONDS: Final = 20.0
"""How long a body is not read on while there is no memory for it. Others end or become silent meanwhile."""
_LOOK_SECONDS: Final = 1.0


class OpenBody:
    """A body that is still coming, which counts in `OpenBodies`. ``is_cut``: it is to end, to make room for others.

    ``silent_since`` is when its sender became silent, not counting the time in which nobody waited for it.
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
        """Note that its sender is waited for in this context. If it is cut meanwhile, ``patience`` ends at once."""
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
        """Wait until there is memory for so many bytes more. Raises a ``too-many-requests`` problem if none comes."""
        self._sent += size
        if self._sent >= _ENOUGH_BYTES:
            self._sent, self._waited = 0, 0.0
        if more := min(self.held + size, HELD_BYTES) - self.held:
            await self._bodies.room_for(more)
            self.held += more

    def cut(self) -> None:
        """End the wait for its sender."""
        self.is_cut = True
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())


class OpenBodies:
    """All bodies of a server that are still coming. ``clock`` gives monotonic seconds.

    ``silent`` has those whose sender is waited for; those come first that have been silent for longest.
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
        """Count a body in this context."""
        body = OpenBody(self)
        self._open.add(body)
        try:
            yield body
        finally:
            self._end(body)

    def cut_one(self) -> bool:
        """Cut the body that has been silent for longest; return whether there is one that has been so for long."""
        body = self.silent[0] if self.silent else None
        if body is None or self.clock() - body.silent_since < LEAST_SILENT_SECONDS:
            return False
        log.warning("cut a body whose sender was silent: there is no room for others")
        body.cut()
        self._end(body)
        return True

    async def room_for(self, size: int) -> None:
        """Take so much memory, once there is some. Raises a ``too-many-requests`` problem if none comes."""
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
