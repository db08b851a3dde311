"""Extends kazoo's client, so that it knows its session's timeout and leaves a server that no longer answers.

kazoo sends and receives in its own thread. The overridden names with a leading underscore are private names of kazoo;
tests/backends/zookeeper/test_client.py fails if a release of kazoo changes them.
"""

from __future__ import annotations

import logging
import math
import socket
import ssl
import time
from collections.abc import Callable
from queue import SimpleQueue
from select import POLLIN, POLLOUT, poll
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Auth, Connect
from kazoo.security import CREATOR_ALL_ACL

from milepost_backends.contract import Misconfigured, StorageUnavailable
from milepost_backends.zookeeper.address import Tls, ZooKeeperAddress
from milepost_backends.zookeeper.errors import register_error_codes

log = logging.getLogger("milepost.zookeeper")

_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.2, "max_delay": 1.0}

_CONNECT_SECONDS = 5.0
"""The most seconds for connecting to one server. It is at most a third of the session timeout, which leaves time for
another server.
"""


class _Completions(SimpleQueue[Any]):
    """The queue of kazoo's calls that complete an answer, which are made at once, in the thread that received it.

    kazoo makes them in a thread of their own, since they may wait; those of Milepost only wake the event loop. What is
    no call stays in the queue: it ends that thread.
    """

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Make a call; an exception of it must not end the connection, and is logged, as kazoo does it."""
        if not callable(item):
            super().put(item, block, timeout)
            return
        try:
            item()
        except Exception:
            log.exception("a call that completes an answer of ZooKeeper failed by a bug; the connection goes on")

    def task_done(self) -> None:
        """Do nothing: nobody waits until the queue is empty."""


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Makes threads and sockets for kazoo's client: its sockets have a time limit and Milepost's TLS settings."""

    def __init__(self, connect_seconds: float, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self.completion_queue = _Completions()
        self.connect_seconds = connect_seconds
        self._context = context

    def create_connection(self, address: tuple[str, int], hostname: str | None = None, **_: Any) -> socket.socket:
        """Connect within ``connect_seconds``. With TLS, trust only the authorities that the address names.

        kazoo itself would wait for a whole session timeout if a host drops packets, and so lose the session. It would
        also trust the system's authorities.
        """
        connection = socket.create_connection(address, self.connect_seconds)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                return connection
            return self._context.wrap_socket(connection, server_hostname=hostname)
        except BaseException:
            connection.close()
            raise

    def select(self, readers: Any, writers: Any, _others: Any, timeout: float | None = None) -> Any:
        """Wait for sockets as ``select`` does, but count a TLS socket as ready if it has decrypted bytes that were not
        read yet.

        The system does not know of such bytes, and would wait for more. kazoo asks five times for each answer, and
        would make a new object of epoll each time.
        """
        buffered = [reader for reader in readers if isinstance(reader, ssl.SSLSocket) and reader.pending()]
        poller = poll()
        for reader in readers:
            poller.register(reader, POLLIN)
        for writer in writers:
            poller.register(writer, POLLOUT)
        ready = dict(poller.poll(0 if buffered else None if timeout is None else math.ceil(timeout * 1000)))
        readable = [reader for reader in readers if reader.fileno() in ready or reader in buffered]
        return readable, [writer for writer in writers if writer.fileno() in ready], []


class _Sender(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """The loop in kazoo's thread that sends requests and receives answers.

    In addition to kazoo's own loop, it remembers the session's timeout, and leaves a server that no longer answers.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.session_seconds = 0.0
        self.session_id = 0
        self.connected_at = 0.0
        self.unresolved: list[str] = []
        self._waiting_since = 0.0

    def zk_loop(self) -> None:
        """Run kazoo's loop, and call the client's ``on_end`` when the loop has ended, which kazoo does not always
        report.
        """
        try:
            super().zk_loop()
        finally:
            self.client.on_end()

    def _expand_client_hosts(self) -> Any:
        """Return the addresses of the hosts, and remember the hosts that have none, which kazoo leaves out without an
        error.
        """
        found = super()._expand_client_hosts()
        self.unresolved = sorted({host for host, _ in self.client.hosts} - {host for host, *_ in found})
        return found

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        """Send one request while connecting, and return the answer.

        It has a time limit, since a starting server may accept a connection, but not answer.
        """
        sent = time.monotonic()
        answer = super()._invoke(min(timeout, self.handler.connect_seconds), request, xid)
        if isinstance(request, Connect):
            self.connected_at = sent
            self.session_seconds = answer[0].time_out / 1000
            self.session_id = answer[0].session_id
        return answer

    def _read_socket(self, read_timeout: float) -> Any:
        self._waiting_since = time.monotonic()
        return super()._read_socket(read_timeout)

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        """Send a request, unless the server has not answered for too long: then drop the connection.

        kazoo checks this only while it has no requests to send.
        """
        now = time.monotonic()
        if not self.client._pending:
            self._waiting_since = now
        elif now - self._waiting_since > read_timeout:
            raise ConnectionDropped(f"no answer for {read_timeout:.1f} s")
        super()._send_request(read_timeout, connect_timeout)


class ZooKeeperClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A kazoo client for one ZooKeeper address. It connects only after `begin`."""

    def __init__(self, address: ZooKeeperAddress) -> None:
        """Make a client that is not connected yet. Raises `Misconfigured` if a file that the address names cannot be
        used.
        """
        register_error_codes()
        credentials = address.credentials()
        context = None if address.tls is None else _context(address.tls)
        super().__init__(
            hosts=address.hosts,
            timeout=address.session_seconds,
            handler=_Handler(min(address.session_seconds / 3, _CONNECT_SECONDS), context),
            default_acl=CREATOR_ALL_ACL if credentials else None,
            auth_data=[("digest", credentials)] if credentials else None,
            connection_retry=_RECONNECT,
            logger=_quiet_logger(),
        )
        self._connection = _Sender(self, self._conn_retry.copy(), logger=self.logger)
        self.on_end: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Start to connect, in kazoo's threads. ``on_end`` is called when the main one of these threads ends.

        Raises `StorageUnavailable` if no thread or socket is available; in that case no thread is left running.
        """
        try:
            self.start_async()
        except (OSError, RuntimeError) as error:
            self.handler._running = True  # so that `stop` also ends a thread if only one of the two was started
            self.handler.stop()
            self._connection.connection_stopped.set()
            self.close()
            raise StorageUnavailable(f"cannot start a connection to ZooKeeper: {error}") from error

    @property
    def session_seconds(self) -> float:
        """Return the session timeout that the servers granted, in seconds; 0 before the first connection."""
        return float(self._connection.session_seconds)

    @property
    def session_id(self) -> int:
        """Return the session's id, which is the owner of its ephemeral znodes; 0 before the first connection."""
        return int(self._connection.session_id)

    @property
    def unresolved(self) -> list[str]:
        """Return the names of ZooKeeper's hosts that had no address when this client last tried to connect."""
        return self._connection.unresolved

    @property
    def connected_at(self) -> float:
        """Return when this client last asked a server to make or resume the session (monotonic seconds)."""
        return float(self._connection.connected_at)

    def send(self, request: Any) -> Any:
        """Send a request of a type that kazoo itself does not have. Return kazoo's promise of the answer."""
        answer = self.handler.async_result()
        self._call(request, answer)
        return answer


class _Discreet(logging.Filter):
    """A log filter that removes credentials and session passwords, since either allows its holder to end a session."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace secret arguments of the record by the names of their types. No record is dropped."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                type(value).__name__ if isinstance(value, Connect | Auth) else value for value in record.args
            )
        return True


_DISCREET = _Discreet()


def _quiet_logger() -> logging.Logger:
    """Return a logger for kazoo that writes only errors, without secrets.

    Many of kazoo's debugging lines show credentials or passwords. Its warnings would be written for each attempt to
    connect, ten times a second; `ZooKeeperConnection` logs a lost connection once. An error line may show a request, so
    a filter removes the secrets from it.
    """
    logger = logging.getLogger("milepost.kazoo")
    logger.setLevel(logging.ERROR)
    logger.addFilter(_DISCREET)
    return logger


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify == "full"
    if tls.verify == "none":
        context.verify_mode = ssl.CERT_NONE
    try:
        if tls.ca_file is not None:
            context.load_verify_locations(tls.ca_file)
        else:
            context.load_default_certs()
        if tls.cert_file is not None:
            context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(file) for file in (tls.ca_file, tls.cert_file, tls.key_file) if file is not None)
        raise Misconfigured(f"cannot use {files} for TLS to ZooKeeper: {error}") from error
    return context


def _no_password() -> str:
    """Return an empty password for the private key's file. Without this callback, OpenSSL would ask for one at the
    terminal.
    """
    return ""
