"""The one TCP server of the tests' event loop: what stands in front of real servers, or in their place, is made of it.

(The SDK's tests talk to a server from blocking code as well: `tests.support.network.scripted_server` is theirs.)
"""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from testbed.ports import Port

L = TypeVar("L", bound="Listener")

_LONGEST_LINE = 1 << 20
# So many it takes at most from a connection that is taken to the conversation on it.
_TURNS_OF_THE_LOOP = 10


class Listener(ABC):
    """Takes connections on ``port`` of 127.0.0.1, and holds on each the conversation that a subclass says."""

    def __init__(self) -> None:
        self.port = 0
        self.accepted = 0
        """How many connections were taken."""
        self._conversations: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @abstractmethod
    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hold the conversation of one connection, which is closed afterwards."""

    async def cut(self) -> None:
        """Close every connection there is; new ones may be made."""
        for _ in range(_TURNS_OF_THE_LOOP):
            await asyncio.sleep(0)
        conversations = list(self._conversations)
        for conversation in conversations:
            conversation.cancel()
        await asyncio.gather(*conversations)
        await asyncio.sleep(0)  # for the transports, which close at the loop's next turn

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = asyncio.current_task()
        assert conversation is not None
        self._conversations.add(conversation)
        self.accepted += 1
        try:
            with suppress(OSError, asyncio.IncompleteReadError):  # either side has gone
                await self.converse(reader, writer)
        except asyncio.CancelledError:
            return  # by `cut`, which waits for this
        finally:
            self._conversations.discard(conversation)
            writer.close()


@asynccontextmanager
async def listening(listener: L, port: Port | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[L]:
    """Let it listen within the block: on a free port, or on the one that is given."""
    listener.port = (port or Port()).number
    server = await asyncio.start_server(listener._serve, "127.0.0.1", listener.port, ssl=tls, limit=_LONGEST_LINE)
    async with server:
        try:
            yield listener
        finally:
            server.close()  # first, for a client that is cut off may come again at once
            await listener.cut()


async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Write what is read, until either side has gone."""
    with suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
