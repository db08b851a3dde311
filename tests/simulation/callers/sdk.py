"""The real SDK in a simulated process: what its operations ask for is done by the simulated network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Protocol

from milepost.aio.client import AsyncClient
from milepost.core.calls.calls import Caller
from milepost.core.calls.cells import CellsCaller
from milepost.core.calls.replicas import Replicas
from milepost.core.cell_list import CellList
from milepost.core.effects import Answer, Effect, Lost, Read, Send, Sleep, Work
from milepost.drivers.asynchronous import AsyncDriver
from tests.simulation.world.exchange import Conversation, content_of
from tests.simulation.world.process import Program


class Network(Protocol):
    """What a client is connected to."""

    def carry(self, draw: Random, talk: Conversation, again: Conversation) -> None:
        """Carry a request to its address, and ``again``, which is the same, if the network doubles it."""


class _Whole:
    """The body of an answer that is read piece by piece; ``cut``: after so many bytes the connection breaks."""

    def __init__(self, data: bytes, cut: int | None) -> None:
        self._data = data
        self._cut = cut
        self._read = False

    def read(self) -> bytes | Lost:
        """What comes next."""
        if self._read:
            return b"" if self._cut is None else Lost("the connection broke", sent=True)
        self._read = True
        return self._data[: self._cut]


class SimDriver(AsyncDriver):
    """Does what operations ask for, in a program of the simulated world."""

    def __init__(self, program: Program, network: Network, draw: Random) -> None:
        self._program = program
        self._network = network
        self._draw = draw

    @property
    def closed(self) -> bool:
        return not self._program.alive

    async def _perform(self, effect: Effect, opened: object) -> Any:
        del opened  # nothing is held open here
        match effect:
            case Send():
                return await self._sent(effect)
            case Sleep():
                return await asyncio.sleep(effect.seconds)
            case Read(stream=_Whole() as whole):
                return whole.read()
            case Work():
                return effect.function()
        raise TypeError(f"no program here asks for {effect!r}")

    async def _sent(self, send: Send) -> Answer | Lost:
        if not self._program.alive:
            return Lost("the process is dead", sent=False)
        loop, content = self._program.loop, content_of(send.body)
        waiting: asyncio.Future[Answer | Lost] = loop.create_future()
        talk = Conversation(loop, send, content, partial(_end, waiting))
        again = Conversation(loop, send, content, lambda _: None)
        self._network.carry(self._draw, talk, again)
        overdue = Lost(f"no answer within {send.timeout:.3g} s", sent=True, timed_out=True)
        timer = loop.call_later(send.timeout, _end, waiting, overdue)
        try:
            result = await waiting
        finally:
            timer.cancel()
            if not waiting.done() or waiting.cancelled() or waiting.result() is overdue:
                # the server may notice that nobody waits any more
                loop.call_later(self._draw.choice((0.0, 30.0)), talk.exchange.lose, context=loop.outside)
        if isinstance(result, Answer) and send.stream and result.status < 300:
            cut = self._draw.randrange(max(1, len(result.body))) if self._draw.random() < 0.02 else None
            return Answer(result.status, result.headers, b"", _Whole(result.body, cut))
        return result


def _end(waiting: asyncio.Future[Answer | Lost], result: Answer | Lost) -> None:
    if not waiting.done():
        waiting.set_result(result)


def client_of(
    cells: CellList | tuple[str, ...], timeout: float, program: Program, network: Network, draw: Random
) -> AsyncClient:
    """A client with a list of cells, or with the addresses of one alone."""

    def new_id() -> str:
        return draw.randbytes(16).hex()

    made: Callable[[Replicas], Caller] = partial(
        Caller, timeout=timeout, clock=program.loop.time, random=draw, new_id=new_id
    )
    client = AsyncClient.__new__(AsyncClient)
    client._whole = None
    client._driver = SimDriver(program, network, draw)
    if isinstance(cells, CellList):
        client._caller = CellsCaller(lambda: cells, made, timeout)
        client._caller._random = draw
        client._caller.new_id = new_id
        client._caller.clock = program.loop.time
    else:
        client._caller = made(Replicas(cells))
    return client
