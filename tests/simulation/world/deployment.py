"""A deployment: its services, its replicas, and what befalls them."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from random import Random

from milepost_backends.contract import Change, Head
from milepost_server.replica.replica import Replica
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.plan import Plan
from tests.simulation.trace import Trace
from tests.simulation.world.blobs import BlobService, SimBlobs
from tests.simulation.world.elections import ElectionService, SimElection
from tests.simulation.world.loop import VirtualLoop
from tests.simulation.world.network import Faults, Line
from tests.simulation.world.pointers import CoordinationStore, SimPointers
from tests.simulation.world.process import Process

_FIRST_DAY = datetime(2026, 1, 1)
_SUPERVISOR_SECONDS = 0.2
_SUPERVISOR_LOOKS = 150


class Deployment:
    """Replicas, and the services below them. ``settings``: those of processes that are started from now on."""

    def __init__(self, plan: Plan, loop: VirtualLoop, trace: Trace, tally: Counter[str]) -> None:
        self.plan = plan
        self.loop = loop
        self.trace = trace
        self.tally = tally
        self.settings = plan.settings
        self.blobs = BlobService(loop)
        self.coordination = CoordinationStore(self)
        self.election = ElectionService(loop, plan.election)
        self.calm = False
        self.places: list[Process] = []
        self._stolen = False
        self._lines: list[Line] = []
        self._buried: list[Process] = []
        self._incarnations = 0

    def random(self, what: str) -> Random:
        """A stream of chance for one purpose, so that a change in one does not shift the others."""
        return Random(f"{what} {self.plan.seed}")

    # -- what is seen ----------------------------------------------------------------------------------------------

    def taken_over(self, by: str, head: Head) -> None:
        """See `Witness`."""
        del head
        self.tally["take-overs"] += 1
        self._stolen = not self.election.surely_held_by(by)

    def committed(self, by: str, head: Head, changes: Sequence[Change], revision: int) -> None:
        """See `Witness`."""
        del changes, revision
        if self._stolen:
            raise Violation(Invariant.DEPOSED, f"{by} took term {head.term} when it led no more, and wrote under it")
        self.tally["groups"] += 1

    # -- replicas --------------------------------------------------------------------------------------------------

    def leader(self) -> Process | None:
        """The process that holds the election, as far as the election knows."""
        return next((process for process in self.places if process.name == self.election.holder), None)

    def address(self, place: int) -> str:
        """The address of whatever process is in a place."""
        return f"p{place}"

    def start(self, place: int | None = None) -> Process:
        """Start a process in a new place, or in that of one that died."""
        self._incarnations += 1
        process = self._process(self.address(len(self.places) if place is None else place), self._incarnations)
        if place is None:
            self.places.append(process)
        else:
            self._bury(self.places[place])
            self.places[place] = process
        self.trace.note("started", process.name)
        return process

    def kill(self, process: Process) -> None:
        """A process dies."""
        if process.alive:
            self.trace.note("killed", process.name)
            self.tally["kills"] += 1
            process.kill()
            self.election.died(process.name)

    async def stop(self, process: Process) -> None:
        """Stop a process in order, as its supervisor does: with timeout, but not without end."""
        self.trace.note("stopping", process.name)
        self.tally["stops"] += 1
        process.stop()
        for _ in range(_SUPERVISOR_LOOKS):
            if not process.alive:
                break
            await asyncio.sleep(_SUPERVISOR_SECONDS)
        process.kill()
        self.election.died(process.name)

    def end_faults(self) -> None:
        """From now on nothing goes wrong any more; who is paused goes on, who is dead starts again."""
        self.trace.note("calm")
        self.calm = True
        for line in self._lines:
            line.healed, line.cut_until = True, 0.0
        for place, process in enumerate(self.places):
            process.go_on()
            if process.stopping:
                self.kill(process)
            if not process.alive:
                self.start(place)

    async def end(self) -> None:
        """End every process, and wait until nothing of any is left."""
        for process in self.places:
            process.kill()
            self._bury(process)
        for _ in range(_SUPERVISOR_LOOKS):
            if not any(process.runs for process in self._buried):
                return
            await asyncio.sleep(_SUPERVISOR_SECONDS)
        raise TimeoutError("something of a process that was ended still runs")

    def _bury(self, process: Process) -> None:
        self.tally["terms abandoned"] += process.replica.journal.terms_abandoned
        self._lines = [line for line in self._lines if not line.dead]
        self._buried = [dead for dead in (*self._buried, process) if dead.runs]

    def _process(self, address: str, incarnation: int) -> Process:
        plan, loop, settings, name = self.plan, self.loop, self.settings, f"{address}.{incarnation}"
        random = self.random(name)
        shift = random.uniform(0.0, 1e6)
        election_faults = None if math.isinf(plan.election.lease) else plan.pointers
        lines = {
            "pointers": self._line(f"{name} pointers", plan.pointers),
            "election": self._line(f"{name} election", election_faults),
            "blobs": self._line(f"{name} blobs", plan.blobs, ordered=False),
        }

        def clock() -> float:
            return loop.time() + shift

        def build() -> Replica:
            return Replica(
                pointers=SimPointers(name, self.coordination, lines["pointers"], random, plan.limits),
                election=SimElection(name, self.election, lines["election"], plan.election, clock),
                blobs=SimBlobs(self.blobs, lines["blobs"]),
                advertise=address,
                settings=settings,
                clock=clock,
                wall=lambda: f"{_FIRST_DAY + timedelta(seconds=loop.time()):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z",
                jitter=random,
            )

        network = self.random(f"{name} network")
        latency = plan.network.latency
        return self.made(name, build, lines, lambda: network.expovariate(1.0) * latency)

    def made(
        self, name: str, build: Callable[[], Replica], lines: dict[str, Line], latency: Callable[[], float]
    ) -> Process:
        """Make a process."""
        return Process(name, self.loop, build, lines, latency)

    def _line(self, what: str, faults: Faults | None, *, ordered: bool = True) -> Line:
        line = Line(self.loop, self.random(what), faults, ordered=ordered)
        line.healed = line.healed or self.calm
        self._lines.append(line)
        return line
