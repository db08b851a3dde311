"""A world of two cells, the network in front of them, and programs that use them."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from milepost.core.cell_list import CellList
from tests.simulation.checks.cell_chronicle import CellChronicle
from tests.simulation.plan import CellsPlan, Plan
from tests.simulation.trace import Trace
from tests.simulation.world.cell import Cell, HttpProcess
from tests.simulation.world.exchange import Conversation
from tests.simulation.world.loop import VirtualLoop
from tests.simulation.world.process import Program

FIRST, SECOND = "a", "b"


class CellsWorld:
    """Everything that an episode of two cells takes place in. ``cells``: those that there are by now."""

    def __init__(self, plan: Plan) -> None:
        assert plan.cells is not None
        self.plan = plan
        self.of_cells: CellsPlan = plan.cells
        self.loop = VirtualLoop()  # type: ignore[abstract]  # what the service never calls is left out
        self.trace = Trace(self.loop.time)
        self.tally: Counter[str] = Counter()
        self.chronicle = CellChronicle(self.trace, self.tally)
        self.cells: dict[str, Cell] = {}
        self.calm = False
        self.programs: dict[Program, None] = {}

    def random(self, what: str) -> Random:
        """A stream of chance for one purpose, so that a change in one does not shift the others."""
        return Random(f"{what} {self.plan.seed}")

    # -- the cells -------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Start the cells that are there from the beginning."""
        names = (FIRST, SECOND) if self.of_cells.grows is None else (FIRST,)
        for name in names:
            self._add(name, names)

    async def grow(self) -> None:
        """Add the second cell, unless it is there, and start the replicas of the first anew with the longer list."""
        first, both, draw = self.cells[FIRST], (FIRST, SECOND), self.random("growth")
        if SECOND not in self.cells:
            self.trace.note("grows")
            self._add(SECOND, both)
            first.knows(both)
        for place in range(self.plan.replicas):
            await asyncio.sleep(draw.uniform(0.0, 0.0 if self.calm else 10.0))
            first.kill(first.places[place])
            first.start(place)

    def _add(self, name: str, names: tuple[str, ...]) -> None:
        cell = Cell(self.plan, name, self.loop, self.trace, self.tally, self.chronicle)
        self.chronicle.blobs[name] = cell.blobs
        cell.knows(names)
        self.cells[name] = cell
        for _ in range(self.plan.replicas):
            cell.start()

    def list_of(self, names: tuple[str, ...]) -> CellList:
        """The list of these cells."""
        return CellList({name: self.cells[name].addresses for name in names})

    def end_faults(self) -> None:
        """From now on nothing goes wrong any more."""
        self.calm = True
        for cell in self.cells.values():
            cell.away_until = 0.0
            cell.end_faults()

    async def end(self) -> None:
        """End everything."""
        for program in self.programs:
            program.kill()
        for cell in self.cells.values():
            await cell.end()

    # -- the network -----------------------------------------------------------------------------------------------

    def carry(self, draw: Random, talk: Conversation, again: Conversation) -> None:
        """See `Network`."""
        self.tally["requests"] += 1
        faults, now = self.plan.network, self.loop.time()
        latency = draw.expovariate(1.0) * faults.latency
        cell = self._at(talk.address)
        if self.calm or cell is None:
            talk.later(latency, lambda: self._arrive(talk))
            return
        fate, latest = draw.random(), draw.uniform(0.0, faults.latest)
        if now < cell.away_until:
            if draw.random() < 0.3:  # it is held on its way until the cell is back
                talk.later(cell.away_until - now + latest, lambda: self._arrive(again))
        elif fate < faults.lost:
            pass
        elif fate < faults.lost + faults.late:
            talk.later(latest, lambda: self._arrive(again))
        elif fate < faults.lost + faults.late + faults.deaf:
            talk.later(latency, lambda: self._arrive(again))
        elif fate < faults.lost + faults.late + faults.deaf + faults.slow:
            talk.later(latest, lambda: self._arrive(talk))
        else:
            if draw.random() < self.of_cells.doubled:
                self.tally["doubled"] += 1
                talk.later(latest, lambda: self._arrive(again))
            talk.later(latency, lambda: self._arrive(talk))
            return
        if draw.random() < 0.5:
            talk.later(draw.uniform(0.0, 1.0), talk.broken)

    def _arrive(self, talk: Conversation) -> None:
        cell = self._at(talk.address)
        if cell is None:
            talk.unreachable()
            return
        process = cell.places[int(talk.address.rpartition("-")[2])]
        assert isinstance(process, HttpProcess)
        process.hear(talk)

    def _at(self, address: str) -> Cell | None:
        name = address.removeprefix("http://").partition("-")[0]
        return self.cells.get(name)
