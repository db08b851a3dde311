"""An answer that was put together in pieces, and is sent so: one that is long holds up nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_SHORT: Final = 64 * 1024


class InPieces(Response):
    """Its length is known, so that who receives it sees whether it is whole. A short one is sent at once."""

    def __init__(self, pieces: Iterable[bytes], status: int, headers: Mapping[str, str], media_type: str) -> None:
        self._pieces = list(pieces)
        length = sum(map(len, self._pieces))
        if length <= _SHORT:
            self._pieces = [b"".join(self._pieces)]
        super().__init__(None, status, {**headers, "Content-Length": str(length)}, media_type)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it. The server makes this wait for a slow receiver, and others have their turn in between."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        self._pieces.reverse()
        while self._pieces:
            piece = self._pieces.pop()
            await send({"type": "http.response.body", "body": piece, "more_body": bool(self._pieces)})
            if self._pieces:
                await asyncio.sleep(0)
