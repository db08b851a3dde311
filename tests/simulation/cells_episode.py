"""An episode of two cells: programs lead, move and keep jobs under faults, and in the calm after that all goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from tests.simulation.callers.cell_programs import Life, Programs, drive, keep, lead, move, moved
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.world.cells import SECOND, CellsWorld
from tests.simulation.world.weather import Forecast

_RECOVERY_SECONDS = 3000.0
_LONGEST_SECONDS = 7200.0


async def story(world: CellsWorld) -> None:
    """All that happens in the world."""
    await world.begin()
    forecasts = [Forecast(cell) for cell in world.cells.values()]
    weather = [asyncio.create_task(befall(world)), *(asyncio.create_task(forecast.run()) for forecast in forecasts)]
    if world.of_cells.grows is not None:
        weather.append(asyncio.create_task(_grows(world, world.of_cells.grows, forecasts)))

    def enough() -> bool:
        return world.tally["requests"] >= world.plan.requests or world.loop.time() >= _LONGEST_SECONDS

    living = [asyncio.create_task(programs.live(enough)) for programs in _programs(world)]
    ended, _ = await asyncio.wait((*living, *weather), return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()
    for task in weather:
        task.cancel()
    for forecast in forecasts:
        await forecast.end()
    world.end_faults()
    for program in list(world.programs):
        program.kill()
    await asyncio.gather(*living)
    if world.of_cells.grows is not None:
        await world.grow()  # which may have been cut off
    await _recovers(world)
    await world.end()


def _programs(world: CellsWorld) -> Iterator[Programs]:
    plan = world.of_cells
    for number in range(plan.drivers):
        yield Programs(world, f"driver{number}", drive)
    for number in range(plan.movers):
        yield Programs(world, f"mover{number}", move)
    for number in range(plan.people):
        yield Programs(world, f"person{number}", keep)


async def _grows(world: CellsWorld, seconds: float, forecasts: list[Forecast]) -> None:
    await asyncio.sleep(seconds)
    await world.grow()
    forecasts.append(Forecast(world.cells[SECOND]))
    await forecasts[-1].run()


async def befall(world: CellsWorld) -> None:
    """Programs are killed and paused, and cells are away, until cancelled. What befalls replicas is in the forecast."""
    draw, plan = world.random("what befalls programs"), world.plan
    while True:
        await asyncio.sleep(draw.expovariate(1.0) * world.of_cells.interval)
        seconds = draw.expovariate(1.0) * draw.choice((plan.weather.short, plan.weather.long))
        programs = [program for program in world.programs if program.alive and not program.paused]
        if draw.random() < 0.3:
            cell = draw.choice(list(world.cells.values()))
            world.trace.note("away", cell.name, round(seconds, 3))
            world.tally["cells away"] += 1
            cell.away_until = world.loop.time() + seconds
        elif programs:
            program = draw.choice(programs)
            if draw.random() < 0.4:
                world.trace.note("killed", program.name)
                world.tally["programs killed"] += 1
                program.kill()
            else:
                world.trace.note("paused", program.name, round(seconds, 3))
                world.tally["programs paused"] += 1
                program.pause()
                world.loop.call_later(seconds, program.go_on, context=world.loop.outside)


async def _recovers(world: CellsWorld) -> None:
    """Each job is led, is moved to each cell, and is led there."""
    for job in sorted(world.chronicle.known):
        leads = partial(lead, job=job, acts=3)
        await _succeeds(world, job, leads)
        for cell in world.cells:
            await _succeeds(world, job, partial(moved, job=job, to=cell))
            if world.chronicle.known[job] != cell:
                raise Violation(Invariant.RECOVERS, f"{job} was moved to {cell}, and is not there")
            await _succeeds(world, job, leads)


async def _succeeds(world: CellsWorld, job: str, act: Callable[[Life], Awaitable[None]]) -> None:
    end = world.loop.time() + _RECOVERY_SECONDS
    while (error := await Programs(world, f"calm {world.loop.time()}", act).once(tuple(world.cells))) is not None:
        if world.loop.time() > end:
            raise Violation(Invariant.RECOVERS, f"{job} does not get on: {error!r}") from error
        await asyncio.sleep(1.0)
