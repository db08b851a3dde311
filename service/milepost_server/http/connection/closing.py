"""The transport of a connection: it closes the connection so that the last answer still arrives, and notices a dead
peer.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

_RESET: Final = struct.pack("ii", 1, 0)
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""The options of TCP keepalive by name: seconds of silence before the first probe, seconds between probes, and how many
probes may stay unanswered. Not every system has these options.
"""


class LingeringTransport(asyncio.Transport):
    """A transport that counts written bytes, and that can be closed while the peer is still sending.

    If a socket with unread bytes is closed, the operating system resets the connection, and the peer discards the part
    of the answer that it has not read yet. So if the peer may still be sending, `close` ends only the writing side, and
    calls ``lingers``. The protocol then reads on, until the peer has closed too or the protocol aborts the connection.
    """

    def __init__(
        self, transport: asyncio.Transport, more_may_come: Callable[[], bool], lingers: Callable[[], None]
    ) -> None:
        super().__init__()
        self._transport = transport
        self._more_may_come = more_may_come
        self._lingers = lingers
        self._is_paused = False
        self.hung_up = False
        self.written = 0
        self.drained = asyncio.Event()
        """Set while the peer reads quickly enough, so that more may be written; the protocol sets and clears it."""
        self.drained.set()

    @property
    def unsent(self) -> int:
        """The number of written bytes that the system has not accepted yet."""
        return self._transport.get_write_buffer_size()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes. After `close` the bytes are dropped."""
        if not self.hung_up:
            self.written += len(data)
            self._transport.write(data)

    def close(self) -> None:
        """Send what was written, then close the connection, or end only its writing side if the peer may still be
        sending.
        """
        if self.hung_up:
            return
        self.hung_up = True
        if self._more_may_come() and not self._transport.is_closing():
            self._transport.write_eof()
            self._lingers()
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once, and drop all unsent bytes, including those that the system holds for a slow
        peer.
        """
        self.hung_up = True
        if self.unsent:
            with socket.fromfd(self.get_extra_info("socket").fileno(), socket.AF_INET, socket.SOCK_STREAM) as shared:
                shared.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return whether the transport was closed or its connection was lost."""
        return self.hung_up or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Stop reading from the peer until `resume_reading`."""
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the peer again."""
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def is_reading(self) -> bool:
        """Return whether this server reads from the peer now, that is, has not paused reading."""
        return not self._is_paused

    def get_write_buffer_size(self) -> int:
        """Return the number of written bytes that the system has not accepted yet, as `unsent`."""
        return self.unsent

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the system knows about the connection under ``name``, such as ``peername``; ``default`` if
        unknown.
        """
        return self._transport.get_extra_info(name, default)


def notice_dead_peers(transport: asyncio.Transport) -> None:
    """Turn on TCP keepalive, so that the server notices within about a minute that the machine of a silent peer has
    died.
    """
    connection = transport.get_extra_info("socket")
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
