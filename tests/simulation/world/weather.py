"""What befalls the world: processes pause, die and stop, connections are cut, services are away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.simulation.world.deployment import Deployment
from tests.simulation.world.process import Process


class Forecast:
    """Disturbs a deployment until it is told to stop."""

    def __init__(self, world: Deployment) -> None:
        self._world = world
        self._plan = world.plan.weather
        self._draw = world.random("weather")
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """One disturbance after the other, several at once at times, until cancelled."""
        weights = {
            self._pause: self._plan.pause,
            self._kill: self._plan.kill,
            self._stop: self._plan.stop,
            self._cut: self._plan.cut,
            self._outage: self._plan.outage,
        }
        while True:
            await asyncio.sleep(self._draw.expovariate(1.0) * self._plan.interval)
            (happen,) = self._draw.choices(list(weights), list(weights.values()))
            self._begin(happen())

    async def end(self) -> None:
        """End what is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _begin(self, disturbance: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(disturbance)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def _victim(self) -> Process:
        """Mostly the leader: nobody else does much."""
        leader = self._world.leader()
        return leader if leader is not None and self._draw.random() < 0.75 else self._draw.choice(self._world.places)

    def _duration(self) -> float:
        """Mostly short, sometimes long enough for leases to run out."""
        mean = self._plan.short if self._draw.random() < 0.4 else self._plan.long / 3
        return self._draw.expovariate(1.0) * mean

    async def _pause(self) -> None:
        process, seconds = self._victim(), self._duration()
        if process.paused or not process.alive:
            return
        self._world.tally["pauses"] += 1
        self._world.trace.note("paused", process.name, round(seconds, 3))
        process.pause()
        await asyncio.sleep(seconds)
        self._world.trace.note("goes on", process.name)
        process.go_on()

    async def _kill(self) -> None:
        process = self._victim()
        self._world.kill(process)
        await self._replaced(process)

    async def _stop(self) -> None:
        process = self._victim()
        if not process.stopping:
            await self._world.stop(process)
            await self._replaced(process)

    async def _replaced(self, process: Process) -> None:
        """Its supervisor starts another process in its place."""
        await asyncio.sleep(self._draw.uniform(0.05, 5.0))
        if process in self._world.places:
            self._world.start(self._world.places.index(process))

    async def _cut(self) -> None:
        """One process cannot reach some of the services."""
        process, until = self._victim(), self._world.loop.time() + self._duration()
        away = [name for name in self._plan.lines if self._draw.random() < 0.6]
        self._world.tally["cuts"] += 1
        self._world.trace.note("cut", process.name, *away, round(until, 3))
        for name in away:
            process.lines[name].cut_until = until

    async def _outage(self) -> None:
        """Nobody can reach one of the services."""
        until = self._world.loop.time() + self._duration()
        away = self._draw.choice(("pointers", "pointers", "election", "blobs"))
        self._world.tally["outages"] += 1
        self._world.trace.note("outage", away, round(until, 3))
        for process in self._world.places:
            process.lines[away].cut_until = until
