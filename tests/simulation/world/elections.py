"""The simulated election: a lease that is renewed, or a lock that lasts as long as its holder lives."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from milepost_backends.contract import Leadership, StorageUnavailable
from tests.simulation.world.loop import VirtualLoop
from tests.simulation.world.network import Broken, Line


@dataclass(frozen=True, slots=True)
class Terms:
    """How an election works.

    ``lease``: seconds, or infinity for a lock that only its holder's death or resignation frees. ``poll``: seconds
    between two tries of a candidate. ``prompt``: whether a leader whose lease ran out gives up by itself, or goes on
    believing until the election tells it otherwise.
    """

    lease: float = 6.0
    poll: float = 0.5
    prompt: bool = True


class ElectionService:
    """Who holds the election, and until when by the service's own clock. Each method is one atomic act."""

    def __init__(self, loop: VirtualLoop, terms: Terms) -> None:
        self.holder: str | None = None
        self._loop = loop
        self._terms = terms
        self._grant = 0
        self._expires = 0.0
        self._dead: set[str] = set()

    def acquire(self, candidate: str) -> int | None:
        """The number of the grant, or None while another holds it."""
        if self.holder is not None and self._loop.time() < self._expires:
            return None
        if candidate in self._dead:  # what it sent before it died may come in after that
            return None
        self._grant += 1
        self.holder = candidate
        self._expires = self._loop.time() + self._terms.lease
        return self._grant

    def surely_held_by(self, candidate: str) -> bool:
        """Whether nobody else can be leading now."""
        return self.holder == candidate and self._loop.time() < self._expires

    def renew(self, grant: int) -> bool:
        """Whether the grant still stands; then it does so for another while."""
        if grant != self._grant or self.holder is None or self._loop.time() >= self._expires:
            return False
        self._expires = self._loop.time() + self._terms.lease
        return True

    def release(self, grant: int) -> None:
        """The grant is given back."""
        if grant == self._grant:
            self.holder = None

    def died(self, candidate: str) -> None:
        """A process died: a lock of its is free at once, a lease has to run out."""
        if math.isinf(self._terms.lease):
            self._dead.add(candidate)
            if self.holder == candidate:
                self.holder = None


class SimElection:
    """An `Election`: the service as one process reaches it. ``clock`` is the process's own."""

    def __init__(
        self, name: str, service: ElectionService, line: Line, terms: Terms, clock: Callable[[], float]
    ) -> None:
        self._name = name
        self._service = service
        self._line = line
        self._terms = terms
        self._clock = clock
        self._open = False

    async def open(self) -> None:
        """See `Election.open`."""
        self._open = True

    async def close(self) -> None:
        """See `Election.close`."""
        self._open = False

    async def campaign(self) -> Leadership:
        """See `Election.campaign`."""
        while self._open:
            asked = self._clock()
            try:
                grant = await self._line.call(lambda: self._service.acquire(self._name))
            except Broken as error:
                raise StorageUnavailable(str(error)) from error
            if grant is not None:
                return SimLeadership(self._service, self._line, self._terms, self._clock, grant, asked)
            await asyncio.sleep(self._terms.poll)
        raise StorageUnavailable("the election is closed")

    async def leader(self) -> str | None:
        """See `Election.leader`: the address of the process, whose name ends with a number."""
        return None if self._service.holder is None else self._service.holder.rpartition(".")[0]


class SimLeadership:
    """A `Leadership`. A lease counts from before the request that renewed it."""

    def __init__(
        self,
        service: ElectionService,
        line: Line,
        terms: Terms,
        clock: Callable[[], float],
        grant: int,
        asked: float,
    ) -> None:
        self._service = service
        self._line = line
        self._terms = terms
        self._clock = clock
        self._grant = grant
        self._until = asked + terms.lease
        self._lost = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep()) if math.isfinite(terms.lease) else None

    def remaining(self, now: float) -> float:
        """See `Leadership.remaining`."""
        return self._until - now

    async def wait_lost(self) -> None:
        """See `Leadership.wait_lost`."""
        await self._lost.wait()

    async def resign(self) -> None:
        """See `Leadership.resign`."""
        self._until = -math.inf
        if self._keeper is not None:
            self._keeper.cancel()
        with suppress(Broken):
            await self._line.call(lambda: self._service.release(self._grant))

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._terms.lease / 3)
            asked = self._clock()
            held: bool | None = None
            with suppress(Broken, TimeoutError):
                async with asyncio.timeout(self._terms.lease / 3):
                    held = await self._line.call(lambda: self._service.renew(self._grant))
            if held:
                self._until = asked + self._terms.lease
            elif held is not None or (self._terms.prompt and self._until <= self._clock()):
                self._lost.set()
                return
