"""A response that is encoded and sent in pieces, so that a long one does not hold up other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_SHORT: Final = 64 * 1024

NOTE_WAITING: Final = "milepost.note_waiting"
"""The extension of a scope by which an answer notes how many of its bytes are in memory and not being sent yet."""


class IncrementalResponse(Response):
    """A response in pieces with a Content-Length, so that the client sees whether it is complete.

    A short one is sent as one piece.
    """

    def __init__(
        self, pieces: Iterable[bytes], status: int, headers: Mapping[str, str], media_type: str | None
    ) -> None:
        self._pieces = list(pieces)
        self._length = sum(map(len, self._pieces))
        if self._length <= _SHORT:
            self._pieces = [b"".join(self._pieces)]
        super().__init__(None, status, {**headers, "Content-Length": str(self._length)}, media_type)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the answer. The server makes this wait for a slow client; other requests are served in between."""
        note: Callable[[int], None] = (scope.get("extensions") or {}).get(NOTE_WAITING, lambda _: None)
        waiting = self._length
        note(waiting)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        self._pieces.reverse()
        while self._pieces:
            piece = self._pieces.pop()
            waiting -= len(piece)
            note(waiting)
            await send({"type": "http.response.body", "body": piece, "more_body": bool(self._pieces)})
            if self._pieces:
                await asyncio.sleep(0)
