"""An encrypted connection: the handshake, then the protocol that sees plain bytes, over a transport that encrypts."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.connection.answers import whole
from milepost_server.http.connection.protocol import HttpProtocol
from milepost_server.http.requests import Fields

log = logging.getLogger("milepost.tls")

_HANDSHAKE_SECONDS: Final = 10.0
_LINGER_SECONDS: Final = 5.0

_READ_BYTES: Final = 64 * 1024


class _EncryptedTransport(asyncio.Transport):
    """A transport that encrypts what is written to it, and gives what it decrypts to the protocol above.

    Unlike asyncio's own, either side may end its sending without ending the other's, as over TCP: a peer that sends no
    more still gets its answer, and one that still sends gets to read that it need not. It takes no memory beyond that
    of OpenSSL and of one read from the network, since nothing is read while the protocol above wants nothing.
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

    # -- what the network brings ---------------------------------------------------------------------------------------

    def shake_hands(self, data: bytes) -> bool:
        """Go on with the handshake, and return whether it is complete. Raises `ssl.SSLError`."""
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._send()
        return True

    def begin(self, above: asyncio.Protocol) -> None:
        """Give the connection, whose handshake is complete, to the protocol above."""
        self._above = above
        above.connection_made(self)
        self._read()

    def received(self, data: bytes) -> None:
        """Decrypt what has come, unless this side hears no more."""
        if not self._ended:
            self._incoming.write(data)
            self._read()

    def eof(self) -> bool:
        """Note that the peer has ended its side of TCP; return whether this side stays open."""
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
            except ssl.SSLError:  # somebody has changed what was sent, or it is no TLS
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

    # -- what the protocol above does ----------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        if self._ended or self._transport.is_closing():
            return
        left = memoryview(data)
        while left:
            left = left[self._tls.write(left) :]
        self._send()

    def _send(self) -> None:
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())

    def can_write_eof(self) -> bool:
        """Return True: TLS can end one direction alone."""
        return True

    def write_eof(self) -> None:
        """End the sending side. What the peer still sends is dropped."""
        self._say_the_end()
        self._transport.write_eof()

    def close(self) -> None:
        """Send what was written, and close."""
        if not self._transport.is_closing():
            self._say_the_end()
            self._transport.close()

    def _say_the_end(self) -> None:
        if not self._ended:
            self._ended = True
            with suppress(ssl.SSLError):  # it wants to read the peer's end too, for which nobody waits here
                self._tls.unwrap()
            self._send()

    def abort(self) -> None:
        """Close at once."""
        self._ended = True
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return whether it was closed, or the connection lost."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Read nothing more from the peer for now."""
        self._paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the peer again, also what came before."""
        self._paused = False
        self._transport.resume_reading()
        self._loop.call_soon(self._read)

    def get_write_buffer_size(self) -> int:
        """Return the number of encrypted bytes that the system has not accepted yet."""
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection; ``peer_certificate`` is the peer's, None if it has shown none."""
        if name == "sslcontext":
            return self._context
        if name == "peer_certificate":
            return self._tls.getpeercert(binary_form=True)
        return self._transport.get_extra_info(name, default)


def encrypted(context: Callable[[], ssl.SSLContext]) -> Callable[..., asyncio.Protocol]:
    """Return what makes the protocol of a connection, with the arguments that uvicorn gives.

    ``context`` is asked at each connection, so new certificates are those of the next connection.
    """

    def protocol(**given: Any) -> asyncio.Protocol:
        return EncryptedProtocol(HttpProtocol(**given), context())

    return protocol


class EncryptedProtocol(asyncio.Protocol):
    """Encrypts a connection for ``above``, which learns of it when its handshake is complete.

    Until then it counts as a connection all the same, without a running request, and has ten seconds at most.
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
        """Close the connection at once: it has taken too long, or others need the room."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self._line = _EncryptedTransport(self._transport, self._context)
        seconds = min(_HANDSHAKE_SECONDS, self._application.idle_seconds)
        self._timer = self._loop.call_later(seconds, self.give_up)
        if not self._application.connections.opened(self):
            self.give_up()

    def data_received(self, data: bytes) -> None:
        """Go on with the handshake, or after it decrypt."""
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
        """Answer a request that is not encrypted, in plain text, as its client would not understand anything else."""
        error = problem(Code.INVALID_REQUEST, "this port speaks TLS, and the request came without: use https")
        self._transport.write(whole(self._application.refusal(error, Fields([]), data)))
        self._linger()

    def _linger(self) -> None:
        """End the sending side, and drop what comes until the peer ends too: otherwise it might miss what was said."""
        self._refused = True
        self._transport.write_eof()
        self._timer.cancel()
        self._timer = self._loop.call_later(_LINGER_SECONDS, self.give_up)

    def eof_received(self) -> bool:
        """Note that the peer sends no more."""
        return self._begun and self._line.eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what waits for this connection."""
        self._timer.cancel()
        if self._begun:
            self._above.connection_lost(exc)
        else:
            self._application.connections.closed(self)

    def pause_writing(self) -> None:
        """Tell that the peer reads slowly."""
        if self._begun:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        """Tell that the peer has caught up."""
        if self._begun:
            self._above.resume_writing()
