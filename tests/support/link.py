"""A link of TCP to a real server, for what networks do: it holds up what goes either way, or refuses and cuts.

It looks at nothing, so what it carries may be encrypted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

_PIECE = 65536


class Link:
    """Listens on ``port`` of 127.0.0.1 for what is meant for ``upstream``, another port there.

    While ``requests_pass`` or ``answers_pass`` is cleared, what goes that way is held up. It goes on once that is set
    again, also if its sender has given up by then, as in a network; only `cut` loses it.
    """

    def __init__(self, upstream: int) -> None:
        self.port = 0
        self.requests_pass = asyncio.Event()
        self.answers_pass = asyncio.Event()
        self.answers_take = 0.0
        """Seconds by which each piece of an answer comes later."""
        self._upstream = upstream
        self._carrying: set[asyncio.Task[None]] = set()
        self.restore()

    def restore(self) -> None:
        """Let everything pass."""
        self.requests_pass.set()
        self.answers_pass.set()

    def hold(self) -> None:
        """Let nothing pass, either way."""
        self.requests_pass.clear()
        self.answers_pass.clear()

    async def cut(self) -> None:
        """Close every connection there is; new ones may be made."""
        carrying = list(self._carrying)
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying)
        await asyncio.sleep(0)  # for the transports, which close at the loop's next turn

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        ends = [writer]
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
            ends.append(up_writer)
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
        except OSError:
            return  # the server takes no connections now
        except asyncio.CancelledError:
            return  # by `cut`, which waits for this
        finally:
            self._carrying.discard(task)
            for end in ends:
                end.close()


@asynccontextmanager
async def link(upstream: int) -> AsyncIterator[Link]:
    """One that listens within the block."""
    made = Link(upstream)
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as server:
        made.port = server.sockets[0].getsockname()[1]
        try:
            yield made
        finally:
            await made.cut()


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event, takes: Callable[[], float]
) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            await asyncio.sleep(takes())
            await passes.wait()
            writer.write(piece)
            await writer.drain()
