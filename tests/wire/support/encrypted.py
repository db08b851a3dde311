"""A TLS connection whose sides can be ended one by one, which sockets of the ssl module cannot."""

from __future__ import annotations

import io
import socket
import ssl
import threading
from contextlib import suppress
from typing import Any

_PIECE = 65536


class EncryptedSocket:
    """What requests byte for byte need of a socket, above a plain one. One thread may send while another receives."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, name: str) -> None:
        self._plain = plain
        self._lock = threading.Lock()  # OpenSSL wants one thread at a time, and nobody waits inside of it
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send()
                self._fill()
            else:
                break
        self._send()

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        for start in range(0, len(data), _PIECE):
            with self._lock:
                self._tls.write(data[start : start + _PIECE])
            self._send()

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return what has come, empty at the peer's end; with ``MSG_WAITALL`` wait for all of it."""
        found = b""
        while len(found) < size:
            try:
                with self._lock:
                    piece = self._tls.read(size - len(found))
            except ssl.SSLWantReadError:
                self._fill()
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                piece = b""
            found += piece
            if not piece or not flags & socket.MSG_WAITALL:
                break
        return found

    def makefile(self, _: str) -> io.BufferedReader:
        """Return a file that reads from it, and leaves it open."""
        return io.BufferedReader(_Reader(self))

    def shutdown(self, _: int) -> None:
        """End the sending side, of TLS and of TCP. What the peer sends is read on."""
        with self._lock, suppress(ssl.SSLError):  # this would like to read the peer's end
            self._tls.unwrap()
        self._send()
        self._plain.shutdown(socket.SHUT_WR)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def _send(self) -> None:
        with self._lock:
            left = self._outgoing.read()
        self._plain.sendall(left)

    def _fill(self) -> None:
        found = self._plain.recv(_PIECE)
        with self._lock:
            if found:
                self._incoming.write(found)
            else:
                self._incoming.write_eof()


class _Reader(io.RawIOBase):
    def __init__(self, connection: EncryptedSocket) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._connection.recv(len(buffer))
        buffer[: len(found)] = found
        return len(found)
