"""The protocol of an encrypted connection: the handshake, and then the protocol that sees plain bytes."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.application import Application
from milepost_server.http.connection.protocol import AnsweringProtocol, whole
from milepost_server.http.requests import Fields
from milepost_server.http.tls.transport import EncryptedTransport

log = logging.getLogger("milepost.tls")

_HANDSHAKE_SECONDS: Final = 10.0
_LINGER_SECONDS: Final = 5.0


def encrypted(context: Callable[[], ssl.SSLContext]) -> Callable[..., asyncio.Protocol]:
    """Return what makes the protocol of a connection, with the arguments that uvicorn gives.

    ``context`` is asked at each connection, so new certificates are those of the next connection.
    """

    def protocol(**given: Any) -> asyncio.Protocol:
        return EncryptedProtocol(AnsweringProtocol(**given), context())

    return protocol


class EncryptedProtocol(asyncio.Protocol):
    """Encrypts a connection for ``above``, which learns of it when its handshake is complete.

    Until then it counts as a connection all the same, without a running request, and has ten seconds at most.
    """

    _transport: asyncio.Transport
    _line: EncryptedTransport
    _timer: asyncio.TimerHandle

    def __init__(self, above: AnsweringProtocol, context: ssl.SSLContext) -> None:
        self._above = above
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._begun = False
        self._heard = False
        self._refused = False

    @property
    def _application(self) -> Application:
        app = self._above.config.app
        assert isinstance(app, Application)
        return app

    def give_up(self) -> None:
        """Close the connection at once: it has taken too long, or others need the room."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self._line = EncryptedTransport(self._transport, self._context)
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
