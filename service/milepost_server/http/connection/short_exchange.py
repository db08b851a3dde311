"""One request of the short way whose answer needs a commit, on a connection of HTTP/1.1."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, NamedTuple

from milepost.errors import Problem
from milepost_server.http.connection.closing import LingeringTransport

log = logging.getLogger("milepost.http")

_END = b"\r\n\r\n"
_CLOSES = b"\r\nconnection: close" + _END


class Finished(NamedTuple):
    """The bytes of an answer, and whether the connection stays open behind it."""

    answer: bytes
    stays_open: bool


class Missing(Enum):
    """What a request on the short way still waits for."""

    BODY = "the bytes of its body, which Java and Python send behind the head, in a packet of their own"


Answered = bytes | Coroutine[Any, Any, Finished] | Missing | None
"""An answer, or one that needs a commit; None if the request must be read as every other request is."""

Common = Sequence[tuple[bytes, bytes]]
"""The header fields that each answer of the server begins with."""


class ShortExchange:
    """A complete request that the application answers in front of the parser; see `Exchange` for what the connection
    asks of it. It calls ``answered`` when the answer is complete.
    """

    more_body = False
    has_begun = False

    def __init__(self, line: LingeringTransport, answered: Callable[[], None]) -> None:
        self.keep_alive = True
        """Whether the connection stays open after the answer."""
        self._line = line
        self._answered = answered
        self._is_lost = False

    def take(self, part: bytes) -> None:
        """Take no part of a body: all of it has come."""

    def end_body(self, error: Problem | None = None) -> None:
        """Do nothing: the body is complete."""

    def end_peer(self) -> None:
        """Do nothing: the client may still wait for the answer."""

    def lose(self) -> None:
        """Note that the connection is lost."""
        self._is_lost = True

    async def answer(self, finishing: Coroutine[Any, Any, Finished]) -> None:
        """Send the answer that a coroutine makes, unless the connection is lost meanwhile.

        The coroutine answers problems and exceptions itself. If even that fails, the connection is closed, so that the
        client does not wait for ever.
        """
        try:
            answer, stays_open = await finishing
        except Exception:
            log.exception("an answer could not be made, so the connection of its client is closed")
            self._line.abort()
            return
        if self._is_lost:
            return
        if stays_open and not self.keep_alive:
            answer = answer.replace(_END, _CLOSES, 1)
        self.has_begun = True
        self.keep_alive = self.keep_alive and stays_open
        self._line.write(answer)
        if not self.keep_alive:
            self._line.close()
        self._answered()
