"""What programs do with jobs in cells: drivers lead them, movers move them, and people keep savepoints of them."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

from milepost.aio.client import AsyncClient
from milepost.aio.store import AsyncStateHandleStore
from milepost.core import moving
from milepost.errors import MilepostError, NotExist
from tests.simulation.callers.sdk import client_of
from tests.simulation.world.cells import FIRST, CellsWorld
from tests.simulation.world.process import Program

_HANDLES = ("latest", "large")
_LARGE = 40
"""More than what is kept in records here."""


class Programs:
    """One program after the other, of the kind that ``act`` is: it ends, or is killed, and another is started."""

    def __init__(self, world: CellsWorld, name: str, act: Callable[[Life], Awaitable[None]]) -> None:
        self.name = name
        self._world = world
        self._act = act
        self._draw = world.random(name)
        self._lives = 0

    async def live(self, enough: Callable[[], bool]) -> None:
        """Be started again and again until it is enough."""
        while not enough():
            await asyncio.sleep(self._draw.expovariate(1.0) * self._world.of_cells.pause)
            await self.once(self._cells())

    async def once(self, cells: tuple[str, ...] | str) -> MilepostError | None:
        """Run one program to its end; the error that ends it."""
        self._lives += 1
        program = Program(f"{self.name}.{self._lives}", self._world.loop)
        self._world.programs[program] = None
        life = Life(self._world, program, self._world.random(program.name), cells)
        task = program.spawn(self._ended(life))
        await asyncio.wait((task,))
        await asyncio.wait(tuple(program.tasks))
        del self._world.programs[program]
        fault = None if task.cancelled() else task.exception()
        if fault is not None and program.alive:
            raise fault
        return None if fault is not None or task.cancelled() else task.result()

    async def _ended(self, life: Life) -> MilepostError | None:
        try:
            await self._act(life)
        except MilepostError as error:
            self._world.trace.note("ended", life.program.name, type(error).__name__, str(error)[:160])
            self._world.tally["refused or given up"] += 1
            return error
        return None

    def _cells(self) -> tuple[str, ...] | str:
        """The list that the next one has: that of now, an older one, or the address of one cell."""
        cells = tuple(self._world.cells)
        if self._draw.random() >= self._world.of_cells.old_lists:
            return cells
        others: tuple[tuple[str, ...] | str, ...] = ((FIRST,), (FIRST,), *cells)
        return self._draw.choice(others)


class Life:
    """One program's. ``cells``: its list of cells, or the one whose addresses it has."""

    def __init__(self, world: CellsWorld, program: Program, draw: Random, cells: tuple[str, ...] | str) -> None:
        self.world = world
        self.program = program
        self.draw = draw
        plan = world.plan
        known = world.cells[cells].addresses if isinstance(cells, str) else world.list_of(cells)
        self.timeout = plan.timeout if not world.calm else 60.0
        self.client = client_of(known, self.timeout, program, world, draw)
        self.ttl = max(2.0, round(plan.ttl * draw.uniform(0.5, 1.5), 3))
        self._made = 0

    def job(self) -> str:
        """A job of anybody's."""
        return f"job-{self.draw.randrange(self.world.of_cells.jobs)}"

    async def rest(self) -> None:
        """Do nothing for a while."""
        await asyncio.sleep(self.draw.expovariate(1.0) * self.world.plan.pace)

    def bytes(self) -> bytes:
        """What nobody has written before."""
        self._made += 1
        content = f"{self.program.name} {self._made} ".encode()
        return content * self.draw.choice((1, _LARGE))

    async def found(self, job: str, *, begin: bool) -> AsyncClient:
        """A client of the cell that has the job."""
        return await self.client.of_job(job, begin=begin, timeout=self.timeout)


async def drive(life: Life) -> None:
    """Lead a job, and write."""
    await lead(life, life.job(), life.draw.randint(1, 12))


async def lead(life: Life, job: str, acts: int) -> None:
    """Lead a job, read what it has, and write so many times. Raises what goes wrong."""
    chronicle = life.world.chronicle
    here = await life.found(job, begin=True)
    async with here.session(life.program.name, life.ttl) as session:
        store = session.store(job)
        epoch = (await store.campaign(life.draw.uniform(1.0, 30.0) if not life.world.calm else 300.0)).epoch
        chronicle.granted(job, epoch)
        life.world.tally["led"] += 1
        before = chronicle.changes[job]
        versions = {handle.name: handle.version async for handle in store.get_all_handles()}
        if chronicle.changes[job] == before:
            chronicle.read(job, chronicle.known[job], versions)
        for count in range(acts):
            await life.rest()
            await _write(life, store, job, epoch, count, versions)
        await store.release_all()
        await store.resign()


async def _write(
    life: Life, store: AsyncStateHandleStore, job: str, epoch: int, count: int, versions: dict[str, str]
) -> None:
    chronicle, content, name = life.world.chronicle, life.bytes(), life.draw.choice(_HANDLES)
    digest = hashlib.sha256(content).hexdigest()
    what = life.draw.choice(("handle", "handle", "file", "commit", "remove"))
    life.world.tally["calls"] += 1
    if what == "remove" and name in versions:
        await store.release_and_try_remove(name)
        del versions[name]
    elif what in ("file", "commit"):
        path = f"checkpoint/state/{name}" if what == "file" else f"checkpoint/commits/{epoch * 100 + count}"
        await store.files.write(path, content)
        chronicle.wrote(job, path, digest)
    else:
        if name in versions:
            await store.get_and_lock(name)
            handle = await store.replace(name, versions[name], content)
        else:
            handle = await store.add_and_lock(name, content)
        versions[name] = handle.version
        chronicle.wrote(job, name, f"{handle.version} {digest}")
    life.world.tally["acknowledged"] += 1


async def keep(life: Life) -> None:
    """Keep a savepoint of a job, as a person does, without an epoch."""
    job, name = life.job(), life.program.name
    here = await life.found(job, begin=False)
    with suppress(NotExist):
        async with here.session(name, life.ttl) as session:
            await session.store(job).files.make_savepoint(name)
            life.world.chronicle.keeps(job, name)
            life.world.tally["savepoints"] += 1


async def move(life: Life) -> None:
    """Move a job to another cell, in the steps of `milepost.moving`."""
    await moved(life, life.job(), life.draw.choice(tuple(life.world.cells)))


async def moved(life: Life, job: str, to: str) -> None:
    """Move a job. Raises what goes wrong."""
    here = await life.found(job, begin=False)
    there = life.client.by_cell().get(to)
    if there is None or here.cell in ("", to):
        return
    async with here.session("mover", life.ttl) as leaving, there.session("mover", life.ttl) as arriving:
        store = leaving.store(job)
        await store.campaign(life.draw.uniform(0.0, 20.0), if_stopped=True)
        id_, run = life.draw.randbytes(16).hex(), store._driver.run
        source, target = store._operations, arriving.store(job)._operations
        try:
            await run(moving.freeze(source, id_, to))
            if [handle.name async for handle in store.get_all_handles() if handle.locks]:
                return
            await run(moving.copy(source, target, id_, here.cell, io.BytesIO))
        except MilepostError:
            await store.resign()
            raise
        await life.rest()
        seal = await run(moving.leave(source, id_))
        await life.rest()
        await run(moving.finish(target, seal))
