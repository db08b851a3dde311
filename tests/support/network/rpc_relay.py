"""A relay between HDFS clients and a NameNode that loses single calls or their answers, as a broken connection does."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from tests.support.network.listener import Listener, hand_on, listening

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


class Relay(Listener):
    """Listens for what is meant for the NameNode on port ``upstream`` of 127.0.0.1."""

    def __init__(self, upstream: int) -> None:
        super().__init__()
        self.losses: list[Loss] = []
        self._upstream = upstream

    def __call__(self, *losses: Loss) -> None:
        """Set what gets lost; nothing: hand everything on."""
        self.losses = list(losses)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand calls and answers on, until either side closes or something is lost."""
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        answers = asyncio.create_task(_answers(up_reader, writer))
        try:
            loss, call = await self._calls(reader, up_writer)
            if loss.after:
                answers.cancel()
                await asyncio.wait([answers])
                up_writer.write(call)
                await up_reader.read(1)  # the beginning of the answer: by then it is done
        finally:
            answers.cancel()
            up_writer.close()

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


def relay(upstream: int) -> AbstractAsyncContextManager[Relay]:
    """Make a relay that listens within the block."""
    return listening(Relay(upstream))


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await hand_on(reader, writer)
    writer.close()
