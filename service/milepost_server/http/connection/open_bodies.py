"""The bounds on all bodies together that are still coming: their memory, and who is cut where there is no room.

Spark keeps a file open while it works, so that a body may be silent for minutes. What it holds meanwhile is bounded for
all bodies together: a file that is being written, and up to `HELD_BYTES` that are not written yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Final

from sortedcontainers import SortedKeyList

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.connection.peer_time import LEAST_BYTES_PER_SECOND

log = logging.getLogger("milepost.http")

HELD_BYTES: Final = 1024 * 1024
"""So much of a body is in memory at most where blobs are files. S3 takes parts of 5 MiB, and HDFS of 8."""
MOST_HELD_BYTES: Final = 256 * 1024 * 1024
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

    def __init__(self, clock: Callable[[], float], most_bytes: int = MOST_HELD_BYTES) -> None:
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
