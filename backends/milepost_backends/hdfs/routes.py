"""Choose the route to the NameNodes of one HDFS when calls hang.

At first one client asks all NameNodes, as the library does by itself. But it waits for ever for a NameNode that went
silent. From then on each NameNode has its own client, and the clients are used in turn: no call to one NameNode hangs
on another. The client does not reveal the NameNodes of a name service, so they are read from the Hadoop configuration.

Each call runs in its own thread, since it may hang. A thread whose call takes too long is left behind: no caller waits
for it, and it does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar
from urllib.parse import urlsplit
from xml.etree import ElementTree

from hdfs_native import Client

from milepost_backends.hdfs.address import HdfsAddress
from milepost_backends.waiting import begin_in_thread, finish

# The most dropped clients on which calls may still hang. Each client keeps as many threads as the machine has
# processors.
_LET_GO: Final = 8
# When a DataNode is silent, the client tries the next one by itself; that must happen before the end of the call.
_SOCKET_TIMEOUTS_IN_A_DEADLINE: Final = 2
_CONFIGURATION_FILES: Final = ("core-site.xml", "hdfs-site.xml")
_AT_ONCE: Final = 32
# The most threads that may be left behind. Each thread ends when its connection does.
_LEFT_BEHIND: Final = 32

T = TypeVar("T")


class Unanswered(TimeoutError):
    """A call has not ended in time; or it was not begun, because too many earlier ones have not ended."""


class ThreadsWithTimeout:
    """Runs each call for at most ``seconds``. Raises `Unanswered`, and TimeoutError if no thread was free meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._left_behind = 0
        self._counting = Lock()

    @property
    def left_behind(self) -> int:
        """Return how many calls still run although their callers have left."""
        return self._left_behind

    @property
    def full(self) -> bool:
        """Return whether the limit of left-behind calls is reached, so that no other call begins."""
        return self._left_behind >= _LEFT_BEHIND

    async def ask(self, call: Callable[[], T]) -> T:
        """Return the call's result. After a cancellation the call continues without a caller."""
        async with self._slot():
            return await self._result(call, self._answer)

    async def act(self, call: Callable[[], T], seconds: float | None = None) -> T:
        """Return the result of a call that changes something, within ``seconds`` if they are given.

        A cancellation is passed on once the call has ended, or its time is over.
        """
        async with self._slot():
            return await self._result(call, lambda result: _end(result, seconds or self._seconds))

    @asynccontextmanager
    async def _slot(self) -> AsyncGenerator[None, None]:
        async with asyncio.timeout(self._seconds):
            await self._slots.acquire()
        try:
            yield
        finally:
            self._slots.release()

    async def _answer(self, result: asyncio.Future[T]) -> T:
        """Wait for a result. A timeout around the future would end the future, but not the call."""
        await asyncio.wait((result,), timeout=self._seconds)
        if not result.done():
            raise Unanswered
        return result.result()

    async def _result(self, call: Callable[[], T], waited_for: Callable[[asyncio.Future[T]], Awaitable[T]]) -> T:
        running = self._started(call)
        result = asyncio.wrap_future(running)
        try:
            return await waited_for(result)
        finally:
            if not result.done():
                result.cancel()
                with self._counting:
                    self._left_behind += 1
                running.add_done_callback(self._ended)
            elif not result.cancelled():
                result.exception()  # mark the exception as retrieved, also if a cancellation came first

    def _started(self, call: Callable[[], T]) -> Future[T]:
        if self.full:
            raise Unanswered
        return begin_in_thread(call, "hdfs")

    def _ended(self, _: Future[T]) -> None:
        with self._counting:
            self._left_behind -= 1


async def _end(result: asyncio.Future[T], seconds: float) -> T:
    try:
        return await finish(result, seconds)
    except TimeoutError as error:
        if result.done():  # the call itself raised the TimeoutError
            raise
        raise Unanswered from error


class Route:
    """A route to NameNodes: one client at a time, and threads for its ``calls`` to NameNodes and ``steps`` with
    DataNodes.

    A client on which calls hang is dropped together with their threads, and another one is made. Since making one may
    hang as well, the pauses between two such changes grow, and their number is limited while calls on dropped clients
    hang.
    """

    def __init__(self, make: Callable[[], Client], deadline: float) -> None:
        self._make = make
        self._deadline = deadline
        self._making = asyncio.Lock()
        self._makers = ThreadsWithTimeout(deadline)
        self._client: Client | None = None
        self.calls = ThreadsWithTimeout(deadline)
        self.steps = ThreadsWithTimeout(deadline)
        self._let_go: list[ThreadsWithTimeout] = []
        self._times = 0
        self._not_before = 0.0

    async def client(self) -> Client:
        """Return the client; make it if there is none. Raises the errors of making it, and TimeoutError."""
        async with self._making:
            if self._client is None:
                self._client = await self._makers.ask(self._make)
            return self._client

    def note_hang(self, client: Client) -> None:
        """Note that a call on ``client`` got no answer, and drop the client if that is due."""
        self._let_go = [threads for threads in self._let_go if threads.left_behind]
        now = time.monotonic()
        if client is self._client and now >= self._not_before and len(self._let_go) < _LET_GO:
            self._times += 1
            self._not_before = now + self._deadline * 2**self._times
            self._let_go.append(self.calls)
            self._client = None
            self.calls, self.steps = ThreadsWithTimeout(self._deadline), ThreadsWithTimeout(self._deadline)

    def note_answer(self, client: Client) -> None:
        """Note that a call on ``client`` got an answer."""
        if client is self._client:
            self._times = 0
            self._not_before = 0.0


class HdfsRoutes:
    """All routes to the NameNodes at ``address``; ``now`` is the one in use."""

    def __init__(self, address: HdfsAddress, deadline: float) -> None:
        self._address = address
        self._deadline = deadline
        self.now = Route(self._common, deadline)
        self._per_namenode: list[dict[str, str]] = []
        self._others: list[Route] = []

    @property
    def takes_turns(self) -> bool:
        """Return whether ``now`` leads to one of several NameNodes."""
        return self.now in self._others

    def leave(self, route: Route) -> None:
        """Use the next route, if ``route`` is the one in use."""
        if route is not self.now:
            return
        if not self._others:
            self._others = [Route(partial(self._made, settings), self._deadline) for settings in self._per_namenode]
        if self._others:
            last = self._others.index(route) if route in self._others else -1
            self.now = self._others[(last + 1) % len(self._others)]

    def _common(self) -> Client:
        self._per_namenode = _settings_per_namenode(self._address)
        return self._made({})

    def _made(self, settings: Mapping[str, str]) -> Client:
        """Make a client. This reads files, and may look up names and credentials."""
        milliseconds = round(self._deadline * 1000 / _SOCKET_TIMEOUTS_IN_A_DEADLINE)
        return Client(self._address.file_system, {"dfs.client.socket-timeout": str(milliseconds), **settings})


def _settings_per_namenode(address: HdfsAddress) -> list[dict[str, str]]:
    """Return settings for each NameNode of a name service that make a client ask only this NameNode, and only once.

    The list is empty if there is only one NameNode, or the configuration does not say how many there are. The
    configuration is read each time, which blocks.
    """
    found = _configuration()
    service = address.name_service if address.authority else urlsplit(found.get("fs.defaultFS", "")).netloc
    if not service or ":" in service or found.get(f"dfs.client.failover.resolve-needed.{service}") == "true":
        return []
    key = f"dfs.ha.namenodes.{service}"
    names = [name for name in found.get(key, "").split(",") if name]
    if len(names) == 1:
        return []
    return [{key: name, "dfs.client.failover.max.attempts": "0"} for name in names]


def _configuration() -> Mapping[str, str]:
    """Return the configuration that the client finds. A file that cannot be read is left out."""
    directory = os.environ.get("HADOOP_CONF_DIR")
    if directory is None and (home := os.environ.get("HADOOP_HOME")) is not None:
        directory = f"{home}/etc/hadoop"
    found: dict[str, str] = {}
    if directory is not None:
        for name in _CONFIGURATION_FILES:
            try:
                properties = ElementTree.parse(Path(directory, name)).getroot().iterfind("property")
            except (OSError, ElementTree.ParseError):
                continue
            found.update((each.findtext("name", ""), each.findtext("value", "")) for each in properties)
    return found
