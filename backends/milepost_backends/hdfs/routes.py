"""Chooses the route to the NameNodes of one HDFS, so that calls still succeed when calls to one NameNode hang.

At first one client of the library serves all NameNodes. But such a client waits for ever for a NameNode that does not
answer. Once that happens, each NameNode gets its own client, and the clients are used in turn. So a call to one
NameNode never hangs because of another NameNode. The library does not reveal the NameNodes of a name service, so this
module reads them from the Hadoop configuration.

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
# A call lasts two timeouts of a socket, so that the client can try another DataNode after one that does not answer.
_SOCKET_TIMEOUTS_IN_A_DEADLINE: Final = 2
_CONFIGURATION_FILES: Final = ("core-site.xml", "hdfs-site.xml")
_AT_ONCE: Final = 32
# The most threads with calls that hang. Such a thread ends when its connection ends.
_LEFT_BEHIND: Final = 32

T = TypeVar("T")


class Unanswered(TimeoutError):
    """A call has not ended in time, or was not begun because too many earlier calls have not ended."""


class ThreadsWithTimeout:
    """Runs each call in its own thread, and waits at most ``seconds`` for its result.

    Raises `Unanswered` if a call does not end in time, and TimeoutError if no thread was free within ``seconds``.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._left_behind = 0
        self._counting = Lock()

    @property
    def left_behind(self) -> int:
        """Return how many calls still run although no caller waits for them."""
        return self._left_behind

    @property
    def full(self) -> bool:
        """Return whether so many calls hang in their threads that no other call may begin."""
        return self._left_behind >= _LEFT_BEHIND

    async def ask(self, call: Callable[[], T]) -> T:
        """Return the result of ``call``, which changes nothing. Raises `Unanswered`, TimeoutError.

        If the waiting task is cancelled, it stops waiting at once, and the call continues in its thread.
        """
        async with self._slot():
            return await self._result(call, self._answer)

    async def act(self, call: Callable[[], T], seconds: float | None = None) -> T:
        """Return the result of ``call``, which changes something. ``seconds`` overrides the time limit of this object.

        If the waiting task is cancelled, it still waits until the call has ended, or its time is over. Raises
        `Unanswered`, TimeoutError.
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
        """Wait for the result of a call, at most for the time limit of this object. Raises `Unanswered`.

        ``asyncio.timeout`` is not used: it would cancel the future, while the call continues.
        """
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
                result.exception()  # a cancelled caller does not retrieve the exception, which asyncio would then log

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
        if result.done():  # the call itself has raised the TimeoutError
            raise
        raise Unanswered from error


class Route:
    """A way to reach NameNodes: one client at a time, and its threads.

    ``calls`` are the threads for calls to NameNodes, and ``steps`` those for steps of reading and writing with
    DataNodes.

    If calls hang on a client, the client and its threads are dropped, and another client is made. Making a client may
    hang as well. So the pause before the next change of clients doubles each time, and the number of dropped clients on
    which calls still hang is limited.
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
        """Return the client of this route; make it if there is none. Raises the errors of making a client, and
        TimeoutError.
        """
        async with self._making:
            if self._client is None:
                self._client = await self._makers.ask(self._make)
            return self._client

    def note_hang(self, client: Client) -> None:
        """Note that a call on ``client`` got no answer, and drop the client, so that another one is made.

        The client is kept while the pause since the last drop is not over, or if calls still hang on too many dropped
        clients.
        """
        self._let_go = [threads for threads in self._let_go if threads.left_behind]
        now = time.monotonic()
        if client is self._client and now >= self._not_before and len(self._let_go) < _LET_GO:
            self._times += 1
            self._not_before = now + self._deadline * 2**self._times
            self._let_go.append(self.calls)
            self._client = None
            self.calls, self.steps = ThreadsWithTimeout(self._deadline), ThreadsWithTimeout(self._deadline)

    def note_answer(self, client: Client) -> None:
        """Note that a call on ``client`` got an answer, so that the pause before the next drop of a client is short
        again.
        """
        if client is self._client:
            self._times = 0
            self._not_before = 0.0


class HdfsRoutes:
    """All routes to the NameNodes at ``address``. Calls use the route ``now``, which changes after failures."""

    def __init__(self, address: HdfsAddress, deadline: float) -> None:
        self._address = address
        self._deadline = deadline
        self.now = Route(self._common, deadline)
        self._per_namenode: list[dict[str, str]] = []
        self._others: list[Route] = []

    @property
    def takes_turns(self) -> bool:
        """Return whether each NameNode has its own route by now. Before that, one route serves all NameNodes."""
        return self.now in self._others

    def leave(self, route: Route) -> None:
        """Use the next route from now on, if ``route`` is still the one in use."""
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
        """Make a client of the library with these settings. This reads files, and may look up names and credentials."""
        milliseconds = round(self._deadline * 1000 / _SOCKET_TIMEOUTS_IN_A_DEADLINE)
        return Client(self._address.file_system, {"dfs.client.socket-timeout": str(milliseconds), **settings})


def _settings_per_namenode(address: HdfsAddress) -> list[dict[str, str]]:
    """Return one dictionary of settings for each NameNode of a name service.

    A client with such settings asks only this NameNode, and only once. The list is empty if there is only one NameNode,
    or if the configuration does not name several. The configuration is read from its files each time, which blocks.
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
    """Return the Hadoop properties that the client library uses. A file that cannot be read is left out."""
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
