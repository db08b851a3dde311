"""A relay between HDFS clients and a NameNode that loses single calls or their answers, as a broken connection does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

_PREAMBLE_BYTES = 7


@dataclass
class Loss:
    """Breaks the connection at calls of ``method``, so many ``times``: before the NameNode sees it, or ``after``."""

    method: str
    times: int = 1
    after: bool = True
    seen: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first one is lost."""

    def is_of(self, call: bytes) -> bool:
        """Whether the message is such a call: its header has the name as a string of protobuf, the first field."""
        return b"\x0a" + bytes([len(self.method)]) + self.method.encode() in call


@dataclass
class Relay:
    """Listens on port ``number`` of 127.0.0.1 for what is meant for the NameNode on port ``upstream``."""

    upstream: int
    number: int = 0
    losses: list[Loss] = field(default_factory=list)
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    def __call__(self, *losses: Loss) -> None:
        """Set what gets lost; nothing: hand everything on."""
        self.losses = list(losses)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side closes it or something is lost."""
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        answers = asyncio.create_task(_hand_on(up_reader, writer))
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                loss, call = await self._calls(reader, up_writer)
                if loss.after:
                    answers.cancel()
                    await asyncio.wait([answers])
                    up_writer.write(call)
                    await up_reader.read(1)  # the beginning of the answer: by then it is done
        except asyncio.CancelledError:
            return  # by `end`, which waits for this
        finally:
            self._serving.discard(serving)
            answers.cancel()
            up_writer.close()
            writer.close()

    async def end(self) -> None:
        """Close every connection."""
        for serving in self._serving:
            serving.cancel()
        await asyncio.gather(*self._serving)
        await asyncio.sleep(0)  # for the transports, which close at the loop's next turn

    async def _calls(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[Loss, bytes]:
        """Hand calls on until one gets lost; which, and the call, not handed on."""
        writer.write(await reader.readexactly(_PREAMBLE_BYTES))
        while True:
            length = await reader.readexactly(4)
            call = length + await reader.readexactly(int.from_bytes(length, "big"))
            for loss in self.losses:
                if loss.times and loss.is_of(call):
                    loss.times -= 1
                    loss.seen.set()
                    return loss, call
            writer.write(call)
            await writer.drain()


@asynccontextmanager
async def relay(upstream: int) -> AsyncIterator[Relay]:
    """One that listens within the block."""
    made = Relay(upstream)
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as server:
        made.number = server.sockets[0].getsockname()[1]
        try:
            yield made
        finally:
            await made.end()


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    writer.close()
