"""kazoo's client, with what it takes to know a session's timeout and to leave a server that no longer answers.

kazoo sends and receives in a thread of its own. The names with a leading underscore that are overridden here are
kazoo's own; tests/backends/zookeeper/test_client.py fails where a release changes them.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Auth, Connect
from kazoo.security import CREATOR_ALL_ACL

from backends.contract import Misconfigured, StorageUnavailable
from backends.zookeeper.address import Tls, ZooKeeperAddress
from backends.zookeeper.errors import teach_codes

_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.2, "max_delay": 1.0}

_CONNECT_SECONDS = 5.0
"""For one server, at most. A third of a session's time at most, so that there is time for another server."""


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Threads and sockets for kazoo."""

    def __init__(self, connect_seconds: float, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self.connect_seconds = connect_seconds
        self._context = context

    def create_connection(self, address: tuple[str, int], hostname: str | None = None, **_: Any) -> socket.socket:
        """kazoo would wait a whole session's time for one host that swallows packets, and so lose the session; and it
        would trust the system's authorities beside the one it is told of.
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

    def select(self, readers: Any, writers: Any, others: Any, timeout: float | None = None) -> Any:
        """What TLS has decrypted but nobody read yet is ready too; the socket below it does not tell."""
        buffered = [reader for reader in readers if isinstance(reader, ssl.SSLSocket) and reader.pending()]
        if not buffered:
            return super().select(readers, writers, others, timeout)
        ready, writable, rest = super().select(readers, writers, others, 0)
        return [*ready, *(reader for reader in buffered if reader not in ready)], writable, rest


class _Sender(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """The loop that sends and receives, in kazoo's thread."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.session_seconds = 0.0
        self.session_id = 0
        self.connected_at = 0.0
        self._waiting_since = 0.0

    def zk_loop(self) -> None:
        """All that kazoo's thread does. kazoo tells of its end only those who took the session to be alive."""
        try:
            super().zk_loop()
        finally:
            self.client.on_end()

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        """Used while connecting: a server that is just starting may take a connection and never answer on it."""
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
        """kazoo pings, and so notices that nobody answers, only while nothing is sent."""
        now = time.monotonic()
        if not self.client._pending:
            self._waiting_since = now
        elif now - self._waiting_since > read_timeout:
            raise ConnectionDropped(f"no answer for {read_timeout:.1f} s")
        super()._send_request(read_timeout, connect_timeout)


class ZooKeeperClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A client for one address, not started yet."""

    def __init__(self, address: ZooKeeperAddress) -> None:
        """Raises `Misconfigured` for files that cannot be used."""
        teach_codes()
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
        """Start connecting, in kazoo's threads; ``on_end`` is called by the one of them without which nothing goes on.

        Raises `StorageUnavailable` if there is no thread or socket to be had: then none is left.
        """
        try:
            self.start_async()
        except (OSError, RuntimeError) as error:
            self.handler._running = True  # also if only one of its two threads could be started: that one must end
            self.handler.stop()
            self._connection.connection_stopped.set()
            self.close()
            raise StorageUnavailable(f"cannot begin to connect to ZooKeeper: {error}") from error

    @property
    def session_seconds(self) -> float:
        """What the servers granted; 0 before the first connection."""
        return float(self._connection.session_seconds)

    @property
    def session_id(self) -> int:
        """As it stands in the ephemeral znodes that the session has made; 0 before the first connection."""
        return int(self._connection.session_id)

    @property
    def connected_at(self) -> float:
        """When, in monotonic seconds, the servers were last asked to make the session or to take it up again."""
        return float(self._connection.connected_at)

    def send(self, request: Any) -> Any:
        """Send a request of a kind that kazoo does not know; kazoo's promise of the answer."""
        answer = self.handler.async_result()
        self._call(request, answer)
        return answer


class _Discreet(logging.Filter):
    """Leaves out what holds credentials or a session's password: who has that can end the session, or keep it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                type(value).__name__ if isinstance(value, Connect | Auth) else value for value in record.args
            )
        return True


_DISCREET = _Discreet()


def _quiet_logger() -> logging.Logger:
    """kazoo's debugging lines show credentials and a session's password in many ways, so they are not to be had. An
    error shows the request that was not answered as it should be.
    """
    logger = logging.getLogger("milepost.kazoo")
    logger.setLevel(logging.WARNING)
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
    """OpenSSL would ask the terminal."""
    return ""
