"""A link of TCP to a real server, for what networks do: it holds up what goes either way, or refuses and cuts.

It looks at nothing, so what it carries may be encrypted; or it ends TLS in front of the server, as a sidecar does.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress

from tests.support.network.listener import Listener, listening

_PIECE = 65536


class Link(Listener):
    """Listens for what is meant for ``upstream``, another port of 127.0.0.1.

    While ``requests_pass`` or ``answers_pass`` is cleared, what goes that way is held up. It goes on once that is set
    again, also if its sender has given up by then, as in a network; only `cut` loses it.
    """

    def __init__(self, upstream: int) -> None:
        super().__init__()
        self.requests_pass = asyncio.Event()
        self.answers_pass = asyncio.Event()
        self.answers_take = 0.0
        """Seconds by which each piece of an answer comes later."""
        self.upstream = upstream
        """Where new connections go. One that is there stays where it is, as behind a Service of Kubernetes."""
        self.restore()

    def restore(self) -> None:
        """Let everything pass."""
        self.requests_pass.set()
        self.answers_pass.set()

    def hold(self) -> None:
        """Let nothing pass, either way."""
        self.requests_pass.clear()
        self.answers_pass.clear()

    async def choose(self) -> int:
        """The port where a new connection goes."""
        return self.upstream

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry what comes, either way, until one side closes. The server may take no connections now."""
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", await self.choose())
        ways = [
            asyncio.ensure_future(_carry(reader, up_writer, self.requests_pass, lambda: 0.0)),
            asyncio.ensure_future(_carry(up_reader, writer, self.answers_pass, lambda: self.answers_take)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            up_writer.close()


def link(upstream: int, tls: ssl.SSLContext | None = None) -> AbstractAsyncContextManager[Link]:
    """Make a link that listens within the block, and ends TLS if it is told how."""
    return listening(Link(upstream), tls=tls)


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event, takes: Callable[[], float]
) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            await asyncio.sleep(takes())
            await passes.wait()
            writer.write(piece)
            await writer.drain()
