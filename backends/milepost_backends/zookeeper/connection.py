"""Lets coroutines use ZooKeeper, over a connection of kazoo. Each wait has a deadline.

kazoo reconnects by itself, and opens a new session when the old one has expired. While there is no connection, this
module passes no request to kazoo, because kazoo would keep it and send it later.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.exceptions import KazooException, WriterNotClosedException
from kazoo.protocol.states import KeeperState

from milepost_backends.contract import BackendError, StorageUnavailable
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.client import ZooKeeperClient
from milepost_backends.zookeeper.errors import backend_error, name_of

log = logging.getLogger("milepost.zookeeper")

Act = Callable[[ZooKeeperClient], Any]
"""A function that sends one request and returns kazoo's promise of the answer, such as ``lambda client:
client.get_async(path)``.
"""

_REBUILD_SECONDS = 0.5
_POLL_SECONDS = 0.02
_MOMENT_SECONDS = 0.001


class UnreadableAnswer(KazooException):  # type: ignore[misc]  # kazoo has no types
    """The answer of the ZooKeeper server cannot be decoded."""


class ZooKeeperConnection:
    """A connection to ZooKeeper, which has one session at a time.

    ``timeout`` (seconds) bounds each wait. ``purpose`` names the connection in the log.
    """

    def __init__(self, address: ZooKeeperAddress, purpose: str, timeout: float | None = None) -> None:
        self.address = address
        self.timeout = max(2.0, 2 * address.session_seconds) if timeout is None else timeout
        self._purpose = purpose
        self._client: ZooKeeperClient | None = None
        self._up = asyncio.Event()
        self._lost = asyncio.Event()
        self._lost_sessions = 0
        self._bridge: Bridge | None = None
        self._rebuilding: asyncio.Task[None] | None = None

    # -- open and close --------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect to ZooKeeper. Idempotent. Raises `Misconfigured`, `StorageUnavailable`; after an error nothing stays
        open.
        """
        if self._client is None:
            self._begin()
            self._lost = asyncio.Event()
        try:
            async with asyncio.timeout(self.timeout):
                await self._up.wait()
            if self._client is None:
                raise StorageUnavailable("the connection to ZooKeeper was closed while it was opened")
        except BaseException as error:
            names = ", ".join(self._client.unresolved) if self._client is not None else ""
            await self.close()
            if isinstance(error, TimeoutError):
                why = f": no address was found for {names}" if names else ""
                raise StorageUnavailable(
                    f"cannot reach ZooKeeper at {self.address.hosts} within {self.timeout:g} s{why}"
                ) from None
            raise

    async def close(self, *, reconnecting: bool = False) -> bool:
        """End the session, which deletes its ephemeral znodes; return whether it ended within the deadline. Idempotent.

        Requests that were sent before still get their answers if the server sends them. If the connection is lost at
        the moment, the session is left to expire; with ``reconnecting``, this call first waits for the connection to
        return, so that it can end the session.
        """
        client, self._client = self._client, None
        if self._rebuilding is not None:
            self._rebuilding.cancel()
        waited_for, self._up = self._up, asyncio.Event()
        waited_for.set()
        self._lost.set()
        if client is None:
            return True
        try:
            async with asyncio.timeout(self.timeout):
                await self._end(client, client.session_seconds if reconnecting else 0.0)
        except TimeoutError:
            log.warning("cannot close the ZooKeeper session for the %s, which is left to expire", self._purpose)
            return False
        return True

    @property
    def session_seconds(self) -> float:
        """Return the session timeout that the servers granted, in seconds; 0 without a session."""
        return self._client.session_seconds if self._client is not None else 0.0

    @property
    def lost_sessions(self) -> int:
        """Return how many sessions were lost since `open`. Two calls with the same result saw the same session."""
        return self._lost_sessions

    @property
    def lost(self) -> asyncio.Event:
        """Return the event that is set once the current session is permanently lost. Each session has its own event."""
        return self._lost

    # -- requests --------------------------------------------------------------------------------------------------

    def submit(self, act: Act) -> asyncio.Future[Any]:
        """Send a request now, and return the future of its answer, which raises kazoo's exceptions.

        ``act`` is called with the client, sends the request, and returns kazoo's promise of the answer. The future may
        be cancelled. Raises `StorageUnavailable` if the request was not sent, and never will be.
        """
        client, bridge = self.require()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        act(client).rawlink(partial(_answered, bridge, future))
        return future

    def require(self) -> tuple[ZooKeeperClient, Bridge]:
        """Return the client, and the bridge that runs calls of kazoo's threads in the event loop.

        Raises `StorageUnavailable` unless a request can be sent now.
        """
        if self._client is None or self._bridge is None:
            raise StorageUnavailable("the connection to ZooKeeper is not open")
        if not self._client.connected:
            raise StorageUnavailable("there is no connection to ZooKeeper at the moment")
        return self._client, self._bridge

    async def ask(self, doing: str, act: Act, *expected: type[KazooException]) -> Any:
        """Send a request and return the answer. If there is no connection, wait for one.

        ``doing`` completes the error message "cannot …"; for ``act`` see `submit`. Raises ``expected`` exceptions
        unchanged, and `StorageUnavailable` or `Misconfigured` for all others.
        """
        try:
            async with asyncio.timeout(self.timeout):
                await self._connected()
                return await self.submit(act)
        except TimeoutError as error:
            raise StorageUnavailable(f"cannot {doing}: ZooKeeper does not answer") from error
        except expected:
            raise
        except KazooException as error:
            raise backend_error(error, doing) from error

    async def _connected(self) -> None:
        """Wait until there is a connection to ZooKeeper, or this object was closed.

        kazoo knows of a lost connection a moment before the event loop does, so both are checked.
        """
        while (client := self._client) is not None and not client.connected:
            await self._up.wait()
            await asyncio.sleep(_MOMENT_SECONDS)

    # -- private ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Make a client of kazoo and start it. Raises `Misconfigured`, `StorageUnavailable`; the present client is then
        kept.
        """
        client = ZooKeeperClient(self.address)
        self._bridge = bridge = self._bridge or Bridge(asyncio.get_running_loop())
        client.add_listener(partial(_changed, bridge, self._became, client))
        client.on_end = lambda: bridge.post(partial(self._ended, client))
        client.begin()
        self._client = client

    def _became(self, client: ZooKeeperClient, state: str) -> None:
        """Log that ``client`` is now connected, is reconnecting, or has lost its session, and wake the tasks that wait
        for it.

        Called in the event loop.
        """
        if client is not self._client:
            return
        if state == KeeperState.CONNECTED:
            log.info("connected to ZooKeeper for the %s", self._purpose)
            self._up.set()
        elif state == KeeperState.CONNECTING:
            log.warning("lost the connection to ZooKeeper for the %s; reconnecting", self._purpose)
            self._up.clear()
        else:
            log.warning("lost the ZooKeeper session for the %s (%s); making a new one", self._purpose, state)
            self._up.clear()
            self._lost_sessions += 1
            self._lost.set()
            self._lost = asyncio.Event()

    def _ended(self, client: ZooKeeperClient) -> None:
        """Begin to replace ``client``, since its thread of kazoo has ended, which kazoo does not start again.

        Called in the event loop.
        """
        if client is self._client:
            log.warning("the client of ZooKeeper for the %s has stopped; making a new one", self._purpose)
            self._up.clear()
            self._rebuilding = asyncio.create_task(self._rebuild(client), name="zookeeper-rebuild")

    async def _rebuild(self, client: ZooKeeperClient) -> None:
        """Try to replace the ended client, until an attempt succeeds or this connection is closed.

        An attempt may fail because a certificate file is missing, for example, and succeed once the file exists.
        """
        while client is self._client:
            await asyncio.sleep(_REBUILD_SECONDS)
            try:
                self._replace(client)
            except (BackendError, RuntimeError) as error:
                log.warning("cannot make a new client of ZooKeeper for the %s yet: %s", self._purpose, error)

    def _replace(self, client: ZooKeeperClient) -> None:
        """Replace ``client`` by a new one. Raises `BackendError`, and `RuntimeError` if no thread is available."""
        if client is self._client:
            self._begin()
            _in_thread(_stop, client, 0.0)

    async def _end(self, client: ZooKeeperClient, grace: float) -> None:
        """Stop the client in another thread, since stopping blocks until kazoo's threads have ended.

        For ``grace`` seconds it first waits for a lost connection to return, so that the session can be ended.
        """
        ended = asyncio.Event()
        bridge = Bridge(asyncio.get_running_loop())
        _in_thread(_stop, client, grace, partial(bridge.post, ended.set))
        await ended.wait()


def _changed(
    bridge: Bridge, became: Callable[[ZooKeeperClient, str], None], client: ZooKeeperClient, state: str
) -> None:
    """Pass the client's state on to the event loop. Called in kazoo's thread.

    The argument ``state`` is not used: it has three values, while the client itself distinguishes five states.
    """
    del state
    bridge.post(partial(became, client, client.client_state))


def _answered(bridge: Bridge, future: asyncio.Future[Any], promise: Any) -> None:
    """Pass the answer in ``promise`` on to the event loop, where it ends ``future``. Called in kazoo's thread."""
    bridge.post(partial(_settle, future, promise))


def _settle(future: asyncio.Future[Any], promise: Any) -> None:
    """Set the result of ``future`` from the answer, unless the future was cancelled. Called in the event loop."""
    if future.done():
        return
    error = promise.exception
    if error is None:
        future.set_result(promise.value)
    elif isinstance(error, KazooException):
        future.set_exception(error)
    else:
        unreadable = UnreadableAnswer(name_of(error))
        unreadable.__cause__ = error
        future.set_exception(unreadable)


def _in_thread(act: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=act, args=arguments, daemon=True, name="zookeeper-close").start()


def _stop(client: ZooKeeperClient, grace: float, then: Callable[[], None] = lambda: None) -> None:
    """Stop the client, after up to ``grace`` seconds in which a lost connection may return, and call ``then``. This
    blocks.
    """
    end = time.monotonic() + grace
    while client.client_state == KeeperState.CONNECTING and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    try:
        client.stop()
        client.close()
    except WriterNotClosedException:
        log.warning("kazoo's thread does not end, and is left behind")
    finally:
        then()


class Bridge:
    """Runs calls from any thread in an event loop, in the order in which they were posted.

    Waking the loop costs a system call and a switch of threads. So all calls that are posted until the loop runs wake
    it only once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._acts: deque[Callable[[], object]] = deque()
        self._awake = False
        self.wake_ups = 0

    def post(self, act: Callable[[], object]) -> None:
        """Let the event loop run ``act`` soon. Any thread may call this. If the loop is closed, nothing happens."""
        self._acts.append(act)
        if not self._awake:
            # Two threads may both wake the loop here, which is harmless. No call is missed, since the loop clears the
            # flag before it reads the queue.
            self._awake = True
            self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _run(self) -> None:
        self._awake = False
        self.wake_ups += 1
        try:
            for _ in range(len(self._acts)):
                self._acts.popleft()()
        finally:
            if self._acts and not self._awake:
                self._awake = True
                self._wake()
