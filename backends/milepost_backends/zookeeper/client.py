"""Extends kazoo's client, so that it knows its session's timeout and leaves a server that no longer answers.

kazoo sends and receives in its own thread. The overridden names with a leading underscore are kazoo's own;
tests/backends/zookeeper/test_client.py fails if a release changes them.
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

from milepost_backends.contract import Misconfigured, StorageUnavailable
from milepost_backends.zookeeper.address import Tls, ZooKeeperAddress
from milepost_backends.zookeeper.errors import register_error_codes

_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.2, "max_delay": 1.0}

_CONNECT_SECONDS = 5.0
"""The most seconds for connecting to one server; at most a third of the session, so that another server has time."""


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Makes threads and sockets for kazoo."""

    def __init__(self, connect_seconds: float, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self.connect_seconds = connect_seconds
        self._context = context

    def create_connection(self, address: tuple[str, int], hostname: str | None = None, **_: Any) -> socket.socket:
        """Connect within ``connect_seconds``, and with TLS trust only the given authorities.

        kazoo would wait a whole session's time for one host that drops packets, and so lose the session. It would also
        trust the system's authorities beside the given one.
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
        """Report a socket as ready also if TLS has decrypted bytes that were not read; the raw socket cannot know."""
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
        self.unresolved: list[str] = []
        self._waiting_since = 0.0

    def zk_loop(self) -> None:
        """Run kazoo's loop, and report its end: kazoo itself reports the end only to callers that believed the session
        alive.
        """
        try:
            super().zk_loop()
        finally:
            self.client.on_end()

    def _expand_client_hosts(self) -> Any:
        """Resolve the hosts' names, and remember those that have no address: kazoo leaves them out without an error."""
        found = super()._expand_client_hosts()
        self.unresolved = sorted({host for host, _ in self.client.hosts} - {host for host, *_ in found})
        return found

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        """Exchange one request while connecting, with a bound: a starting server may accept and never answer."""
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
        """Drop a connection without answers also while requests are sent: kazoo notices that only while it is idle."""
        now = time.monotonic()
        if not self.client._pending:
            self._waiting_since = now
        elif now - self._waiting_since > read_timeout:
            raise ConnectionDropped(f"no answer for {read_timeout:.1f} s")
        super()._send_request(read_timeout, connect_timeout)


class ZooKeeperClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A kazoo client for one address; making it does not start it."""

    def __init__(self, address: ZooKeeperAddress) -> None:
        """Raise `Misconfigured` for files of the address that cannot be used."""
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
        """Start connecting, in kazoo's threads. When the thread that does all the work ends, it calls ``on_end``.

        Raises `StorageUnavailable` if no thread or socket is available; then no thread is left behind.
        """
        try:
            self.start_async()
        except (OSError, RuntimeError) as error:
            self.handler._running = True  # even if only one of its two threads was started, since that thread must end
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
        """Return the session's id, as this session's ephemeral znodes have it; 0 before the first connection."""
        return int(self._connection.session_id)

    @property
    def unresolved(self) -> list[str]:
        """Return the names of hosts that had no address when a connection was last tried."""
        return self._connection.unresolved

    @property
    def connected_at(self) -> float:
        """Return when, in monotonic seconds, this client last asked the servers to make the session or to resume it."""
        return float(self._connection.connected_at)

    def send(self, request: Any) -> Any:
        """Send a request of a kind that kazoo does not know, and return kazoo's promise of the answer."""
        answer = self.handler.async_result()
        self._call(request, answer)
        return answer


class _Discreet(logging.Filter):
    """A filter that removes credentials and session passwords from log records: anyone could end a session with
    either.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace secret arguments by the names of their types, and keep every record."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                type(value).__name__ if isinstance(value, Connect | Auth) else value for value in record.args
            )
        return True


_DISCREET = _Discreet()


def _quiet_logger() -> logging.Logger:
    """Return a logger for kazoo that writes only errors.

    Many debugging lines show credentials or passwords. The warnings come for each attempt to connect, ten a second;
    `ZooKeeperConnection` logs a lost connection once.

    An error line shows the request with the unexpected answer; a filter removes the secrets from it.
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
    """Return an empty password; without this, OpenSSL would ask at the terminal."""
    return ""
