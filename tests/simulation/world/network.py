"""The way between a process and a service of the world: slow, and sometimes it loses, holds back or breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from milepost_backends.contract import BackendError
from tests.simulation.world.loop import VirtualLoop

T = TypeVar("T")


class Broken(Exception):
    """The connection broke. Whether the message arrived, or will arrive yet, is not known."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How often, as probabilities, a message is ``lost``, or arrives ``late``, after its sender has heard that the
    connection broke, or its answer is lost (``deaf``), or all goes well but for taking its time (``slow``).

    ``failing``: how often the service fails by itself, for certain, before it did anything. ``latency``: mean seconds
    of one way. ``latest``: how many seconds late or slow messages take at most.
    """

    lost: float = 0.0
    late: float = 0.0
    deaf: float = 0.0
    slow: float = 0.0
    failing: float = 0.0
    latency: float = 0.002
    latest: float = 30.0


class Line:
    """One process's connection to one service.

    ``ordered``: messages arrive in the order in which they were sent, but for late ones. ``cut_until``: until then
    nothing comes through, unless the line never leaves the machine (no ``faults``). ``healed``: from then on nothing
    goes wrong any more.
    """

    def __init__(self, loop: VirtualLoop, random: Random, faults: Faults | None, *, ordered: bool = True) -> None:
        self.ordered = ordered
        self.cut_until = 0.0
        self.dead = False
        self.healed = faults is None
        self._local = faults is None
        self._loop = loop
        self._random = random
        self._faults = faults or Faults()
        self._last = 0.0

    def fails(self) -> bool:
        """Whether the service fails by itself this time."""
        return not self.healed and self._random.random() < self._faults.failing

    async def call(self, act: Callable[[], T]) -> T:
        """Have ``act`` done at the other end and return what it returns. Raises `Broken`, and what ``act`` raises."""
        if self.dead:
            raise Broken("the process is dead")
        loop, draw, faults = self._loop, self._random, self._faults
        answer: asyncio.Future[T] = loop.create_future()
        now = loop.time()
        fate = 1.0 if self.healed else draw.random()
        cut = now < self.cut_until and not self._local
        if cut or fate < faults.lost + faults.late:
            # What is sent into a cut is lost, or held somewhere on the way until the cut is over.
            if draw.random() < 0.5 if cut else fate >= faults.lost:
                arrival = max(now, self.cut_until) + draw.uniform(0.0, faults.latest)
                loop.call_at(arrival, self._arrive, act, None, 0.0, context=loop.outside)
            self._break_off(answer)
            return await answer
        fate -= faults.lost + faults.late
        deaf, slow = fate < faults.deaf, faults.deaf <= fate < faults.deaf + faults.slow
        more = draw.uniform(0.0, faults.latest) if slow else 0.0
        there = draw.random() * more
        arrival = now + draw.expovariate(1.0) * faults.latency + there
        if self.ordered:
            self._last = arrival = max(self._last + 1e-6, arrival)
        loop.call_at(arrival, self._arrive, act, None if deaf else answer, more - there, context=loop.outside)
        if deaf:
            self._break_off(answer)
        return await answer

    def _break_off(self, answer: asyncio.Future[T]) -> None:
        """The connection turns out to be broken, at once or after a long silence."""
        silence = self._random.uniform(0.0, 1.0) if self._random.random() < 0.5 else self._random.uniform(1.0, 60.0)
        self._loop.call_later(silence, _break, answer, context=self._loop.outside)

    def _arrive(self, act: Callable[[], T], answer: asyncio.Future[T] | None, more: float) -> None:
        try:
            result = act()
        except BackendError as error:
            if answer is not None:
                self._loop.call_later(self._back() + more, _fail, answer, error, context=self._loop.outside)
            return
        if answer is not None:
            self._loop.call_later(self._back() + more, _succeed, answer, result, context=self._loop.outside)

    def _back(self) -> float:
        return self._random.expovariate(1.0) * self._faults.latency


def _succeed(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[T], error: BackendError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # the process may have died meanwhile


def _break(answer: asyncio.Future[T]) -> None:
    if not answer.done():
        answer.set_exception(Broken("no answer came back"))
        answer.exception()
