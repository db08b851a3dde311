"""The protocol of an encrypted connection: it makes the TLS handshake, and then decrypts and encrypts for the HTTP
protocol above it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.connection.exchange import whole
from milepost_server.http.connection.protocol import HttpProtocol
from milepost_server.http.requests import Fields

log = logging.getLogger("milepost.tls")

_HANDSHAKE_SECONDS: Final = 10.0
_LINGER_SECONDS: Final = 5.0

_READ_BYTES: Final = 64 * 1024


class _EncryptedTransport(asyncio.Transport):
    """A transport that encrypts what the protocol above writes, and passes decrypted bytes to that protocol.

    Unlike asyncio's own transport, this one lets each side end its sending alone, as TCP does. So a peer that sends no
    more still gets its answer, and a peer that is still sending can read a refusal. While the protocol above has paused
    reading, the transport reads nothing, so it holds at most the bytes of one read.
    """

    def __init__(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        super().__init__()
        self._transport = transport
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._above: asyncio.Protocol | None = None
        self._paused = False
        self._ended = False
        self._peer_ended = False

    # -- data from the network -----------------------------------------------------------------------------------------

    def shake_hands(self, data: bytes) -> bool:
        """Continue the handshake with received data, and return whether it is complete. Raises `ssl.SSLError`."""
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._send()
        return True

    def begin(self, above: asyncio.Protocol) -> None:
        """Hand the connection to the protocol ``above``, now that its handshake is complete."""
        self._above = above
        above.connection_made(self)
        self._read()

    def received(self, data: bytes) -> None:
        """Decrypt received data, unless this side has closed the connection."""
        if not self._ended:
            self._incoming.write(data)
            self._read()

    def eof(self) -> bool:
        """Note that the peer has ended its side of the TCP connection. Return whether this side can still write."""
        if self._ended:
            return False
        self._incoming.write_eof()
        self._read()
        return True

    def _read(self) -> None:
        assert self._above is not None
        while not (self._paused or self._ended or self._peer_ended or self._transport.is_closing()):
            try:
                plain = self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                plain = b""
            except ssl.SSLError:
                # the received data was altered on its way, or is not TLS: nothing more can be decrypted
                self._send()
                self._transport.close()
                return
            if plain:
                self._above.data_received(plain)
            else:
                self._peer_ended = True
                if not self._above.eof_received():
                    self.close()
        self._send()

    # -- called by the protocol above ----------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send data."""
        if self._ended or self._transport.is_closing():
            return
        left = memoryview(data)
        try:
            while left:
                left = left[self._tls.write(left) :]
        except ssl.SSLError:
            # the peer ended TCP without the closing alert of TLS: it is gone, and nothing can be encrypted for it
            self.abort()
            return
        self._send()

    def _send(self) -> None:
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())

    def can_write_eof(self) -> bool:
        """Return True: this transport can end its sending side alone."""
        return True

    def write_eof(self) -> None:
        """End the sending side. Data that the peer still sends is dropped."""
        self._say_the_end()
        self._transport.write_eof()

    def close(self) -> None:
        """Send what was written, and close the connection."""
        if not self._transport.is_closing():
            self._say_the_end()
            self._transport.close()

    def _say_the_end(self) -> None:
        if not self._ended:
            self._ended = True
            # `unwrap` sends the closing alert of this side, and then raises an error, since the peer's alert has not
            # come yet
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._send()

    def abort(self) -> None:
        """Close the connection at once."""
        self._ended = True
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return whether the transport was closed or its connection was lost."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Read nothing more from the peer for now."""
        self._paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the peer again, beginning with data that came during the pause."""
        self._paused = False
        self._transport.resume_reading()
        self._loop.call_soon(self._read)

    def get_write_buffer_size(self) -> int:
        """Return the number of encrypted bytes that the system has not accepted yet."""
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the information about the connection under ``name``.

        ``peer_certificate`` is the certificate of the peer, None if the peer has shown none.
        """
        if name == "sslcontext":
            return self._context
        if name == "peer_certificate":
            return self._tls.getpeercert(binary_form=True)
        return self._transport.get_extra_info(name, default)


def encrypted(context: Callable[[], ssl.SSLContext]) -> Callable[..., asyncio.Protocol]:
    """Return a factory for the protocol of an encrypted connection, which takes the arguments that uvicorn passes.

    ``context`` is called for each connection, so new certificates take effect with the next connection.
    """

    def protocol(**given: Any) -> asyncio.Protocol:
        return EncryptedProtocol(HttpProtocol(**given), context())

    return protocol


class EncryptedProtocol(asyncio.Protocol):
    """Encrypts a connection for the protocol ``above``, which gets the connection once the handshake is complete.

    During the handshake, which may take ten seconds at most, the connection already counts as one without a running
    request.
    """

    _transport: asyncio.Transport
    _line: _EncryptedTransport
    _timer: asyncio.TimerHandle

    def __init__(self, above: HttpProtocol, context: ssl.SSLContext) -> None:
        self._above = above
        self._application = above.application
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._begun = False
        self._heard = False
        self._refused = False

    def give_up(self) -> None:
        """Close the connection at once, because its handshake took too long, or to make room for other connections."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake of a new connection, or close the connection if there is no room for it."""
        # a cast is needed, since uvloop's transport is not a subclass of asyncio's
        self._transport = cast("asyncio.Transport", transport)
        self._line = _EncryptedTransport(self._transport, self._context)
        seconds = min(_HANDSHAKE_SECONDS, self._application.idle_seconds)
        self._timer = self._loop.call_later(seconds, self.give_up)
        if not self._application.connections.opened(self):
            self.give_up()

    def data_received(self, data: bytes) -> None:
        """Continue the handshake with received data, or, after the handshake, decrypt the data."""
        if self._begun:
            self._line.received(data)
        elif not self._heard and data[:1].isalpha():
            self._refuse_plain(data)
        elif not self._refused:
            self._shake_hands(data)
        self._heard = True

    def _shake_hands(self, data: bytes) -> None:
        try:
            complete = self._line.shake_hands(data)
        except ssl.SSLError as error:
            peer = self._transport.get_extra_info("peername")
            log.info("closed the connection of %s, whose TLS handshake failed: %s", peer, error)
            self._linger()
            return
        if complete:
            self._timer.cancel()
            self._application.connections.closed(self)
            self._begun = True
            self._line.begin(self._above)

    def _refuse_plain(self, data: bytes) -> None:
        """Answer a plain HTTP request on the TLS port with a problem, unencrypted, so that the client understands the
        answer.
        """
        error = problem(Code.INVALID_REQUEST, "this port speaks TLS, and the request came without: use https")
        self._transport.write(whole(self._application.refusal(error, Fields([]), data)))
        self._linger()

    def _linger(self) -> None:
        """End the sending side, and drop received data until the peer ends too. If the connection were closed at once,
        the peer might lose the last answer.
        """
        self._refused = True
        self._transport.write_eof()
        self._timer.cancel()
        self._timer = self._loop.call_later(_LINGER_SECONDS, self.give_up)

    def eof_received(self) -> bool:
        """Note that the peer sends no more. Return whether this side can still write."""
        return self._begun and self._line.eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the handshake, or the protocol above, because the connection was closed or lost."""
        self._timer.cancel()
        if self._begun:
            self._above.connection_lost(exc)
        else:
            self._application.connections.closed(self)

    def pause_writing(self) -> None:
        """Tell the protocol above that the peer reads slowly."""
        if self._begun:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        """Tell the protocol above that the peer has caught up with reading."""
        if self._begun:
            self._above.resume_writing()
