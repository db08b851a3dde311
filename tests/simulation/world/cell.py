"""A deployment that is one of several cells, with the real HTTP application in each of its processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace as with_fields
from functools import partial
from random import Random

from milepost_backends.contract import Change, Head
from milepost_server.compose import ReplicaConfig, application
from milepost_server.http.access.tokens import Tokens
from milepost_server.replica.replica import Replica
from tests.simulation.checks.cell_chronicle import CellChronicle
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.plan import Plan
from tests.simulation.trace import Trace
from tests.simulation.world.deployment import Deployment
from tests.simulation.world.exchange import Conversation
from tests.simulation.world.loop import VirtualLoop
from tests.simulation.world.network import Line
from tests.simulation.world.process import Process


class HttpProcess(Process):
    """A process that is asked by HTTP."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        build: Callable[[], Replica],
        lines: dict[str, Line],
        latency: Callable[[], float],
    ) -> None:
        super().__init__(name, loop, build, lines, latency)
        address = name.rpartition(".")[0]
        config = ReplicaConfig("simulated:", "simulated:", address, address)
        self._app = self._context.run(application, config, self.replica, Tokens())
        self.replica.beside = None  # the heartbeats of data nodes go out by real sockets
        self._talks: dict[Conversation, None] = {}

    def hear(self, talk: Conversation) -> None:
        """A request arrives at the machine."""
        if not self.alive:
            talk.later(self.latency(), talk.unreachable)
            return
        self._talks[talk] = None
        task = self.spawn(talk.exchange.answer(self._app))
        task.add_done_callback(partial(self._answered, talk), context=self.loop.outside)

    def _answered(self, talk: Conversation, _: object) -> None:
        del self._talks[talk]
        if self.alive:
            if talk.failed:
                raise Violation(Invariant.NO_FAULT, f"{self.name} failed at {talk.line}: {talk.body!r}")
            talk.later(self.latency(), talk.answered)

    def cut_off(self) -> None:
        super().cut_off()
        for talk in self._talks:
            talk.later(self.latency(), talk.broken)


class Cell(Deployment):
    """The cell ``name``. ``away_until``: until then none of its clients reaches it."""

    def __init__(
        self, plan: Plan, name: str, loop: VirtualLoop, trace: Trace, tally: Counter[str], seen: CellChronicle
    ) -> None:
        self.name = name
        super().__init__(plan, loop, trace, tally)
        self.away_until = 0.0
        self._seen = seen
        self.blobs.deleted = partial(seen.deleted, name)

    def random(self, what: str) -> Random:
        return Random(f"{self.name} {what} {self.plan.seed}")

    def knows(self, cells: Sequence[str]) -> None:
        """Those of its processes that are started from now on have this list of cells."""
        journal = with_fields(self.settings.journal, cell=self.name, cells=tuple(cells))
        self.settings = with_fields(self.settings, journal=journal)

    def address(self, place: int) -> str:
        return f"http://{self.name}-{place}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of all of its replicas, also of those that are not there yet."""
        return tuple(self.address(place) for place in range(self.plan.replicas))

    def committed(self, by: str, head: Head, changes: Sequence[Change], revision: int) -> None:
        """See `Witness`."""
        super().committed(by, head, changes, revision)
        self._seen.committed(self.name, changes)

    def made(
        self, name: str, build: Callable[[], Replica], lines: dict[str, Line], latency: Callable[[], float]
    ) -> Process:
        return HttpProcess(name, self.loop, build, lines, latency)
