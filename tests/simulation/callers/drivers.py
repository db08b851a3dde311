"""What Spark does to a checkpoint: drivers that lead one after the other, or still believe it, and their executors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from milepost.errors import MilepostError, Problem
from milepost.wire import Code
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import Campaign, Resign
from milepost_server.model.requests.sessions import OpenSession
from milepost_server.model.requests.trees import DeletePath, MakeDirectory, OntoExisting, PutFile, RenamePath
from tests.simulation.callers.caller import Caller
from tests.simulation.callers.calls import Ask, blob_of
from tests.simulation.callers.tree_calls import TreeLook, WholeFile
from tests.simulation.world.world import World

JOB = "job"
"""The store of the tree that all drivers want to lead."""

_RETAINED = 2
"""How many batches of its log a driver keeps."""


class Fenced(Exception):
    """Another driver leads."""


class Driver:
    """One that is started again whenever it ends. What it writes under one epoch, its executors write as well."""

    def __init__(self, world: World, number: int) -> None:
        self.name = f"d{number}"
        self._world = world
        self._caller = Caller(world, self.name)
        self._draw = self._caller.draw
        self._epoch = 0
        self._made = 0

    async def live(self, enough: Callable[[], bool]) -> None:
        """Lead, and lead again, until it is enough."""
        while not enough():
            with suppress(MilepostError, Fenced):
                session = await self._campaign(enough)
                resigns = self._draw.randint(1, 4) if self._draw.random() < 0.5 else None
                for count in range(self._draw.randint(3, 12)):
                    if enough():
                        return
                    if count == resigns:  # and goes on, as one does that was paused while its session ran out
                        await self._ask(Resign(Attempt(session, self._key()), JOB))
                    await self._batch()

    async def probe(self) -> None:
        """Lead, write, rename, read and delete. Raises what goes wrong."""
        await self._campaign(lambda: False)
        path, directory = f"probes/{self._key()}", f"scratch/{self._key()}"
        written = await self._write(self._caller, path, OntoExisting.REFUSE)
        assert await self._ask(TreeLook("read", JOB, path)) == written
        await self._ask(MakeDirectory(Attempt(""), JOB, directory, self._epoch))
        await self._ask(DeletePath(Attempt(""), JOB, directory, self._epoch, recursive=True))
        await self._ask(DeletePath(Attempt(""), JOB, path, self._epoch))

    async def _campaign(self, enough: Callable[[], bool]) -> str:
        session = f"{self.name}-{self._key()}"
        ttl = max(1.0, round(self._world.plan.ttl * self._draw.uniform(0.5, 1.5), 3))
        await self._ask(OpenSession(Attempt(session, self._key()), ttl, self.name))
        while not enough():
            try:
                answer = await self._ask(Campaign(Attempt(session, self._key()), JOB))
            except Problem as error:
                if error.code is not Code.HELD:
                    raise
                await asyncio.sleep(self._draw.uniform(0.1, 1.0))
                continue
            self._epoch = answer["epoch"]
            return session
        raise Fenced

    # -- one batch -------------------------------------------------------------------------------------------------

    async def _batch(self) -> None:
        """One batch, whatever of it goes wrong; `Fenced` ends the driver, though not always at once."""
        try:
            await self._run()
        except Problem as error:
            if error.code is Code.FENCED and self._draw.random() < 0.7:
                raise Fenced from error
        except MilepostError:
            pass

    async def _run(self) -> None:
        draw, batch = self._draw, await self._next_batch()
        try:
            await self._write(self._caller, f"offsets/{batch}", OntoExisting.REFUSE)
        except Problem as error:
            if error.code is not Code.ALREADY_EXISTS:
                raise  # else somebody has planned this batch before, and it is run again
        executors = [Caller(self._world, f"{self.name} {self._key()}") for _ in range(draw.randint(1, 3))]
        await self._all(self._task(executor, batch, number) for number, executor in enumerate(executors))
        target, onto = f"commits/{batch}", draw.choice((OntoExisting.REFUSE, OntoExisting.ANSWER_FALSE))
        twice = [self._caller, executors[0]] if draw.random() < 0.4 else [self._caller]
        await self._all(self._write(caller, target, onto) for caller in twice)
        if draw.random() < 0.3:
            await self._ask(TreeLook("read", JOB, target))
        old = batch - _RETAINED
        if old >= 0:
            for path in (f"offsets/{old}", f"commits/{old}", f"state/{old}.0", f"state/{old}.1"):
                await self._ask(DeletePath(Attempt(""), JOB, path, self._epoch))
        if draw.random() < 0.4:
            await self._ask(DeletePath(Attempt(""), JOB, "scratch", self._epoch, recursive=True))

    async def _next_batch(self) -> int:
        try:
            names = await self._ask(TreeLook("list", JOB, "commits"))
        except Problem as error:
            if error.code is not Code.NOT_EXIST:
                raise
            return 0
        return max((int(name) for name in names if name.isdecimal()), default=-1) + 1

    async def _task(self, executor: Caller, batch: int, number: int) -> None:
        """What one task writes. The third one is as good as the second: a speculative attempt at the same."""
        target = f"state/{batch}.{min(number, 1)}"
        if executor.draw.random() < 0.3:
            await self._put(executor, target, overwrite=True)
        else:
            onto = executor.draw.choice((OntoExisting.REPLACE, OntoExisting.REPLACE, OntoExisting.ANSWER_FALSE))
            await self._write(executor, target, onto)
        if executor.draw.random() < 0.4:
            await self._put(executor, f"scratch/{batch}/{number}", overwrite=False)
        if executor.draw.random() < 0.3:
            with suppress(Problem):
                await self._ask(TreeLook("read", JOB, f"state/{batch - 1}.0"), executor)

    async def _all(self, acts: Any) -> None:
        """Have them done side by side, and raise the first error once all have ended."""
        ends = await asyncio.gather(*acts, return_exceptions=True)
        errors = [end for end in ends if isinstance(end, BaseException)]
        fatal = [error for error in errors if not isinstance(error, MilepostError)]
        for error in fatal or errors:
            raise error

    # -- files -----------------------------------------------------------------------------------------------------

    async def _write(self, caller: Caller, target: str, onto: OntoExisting) -> str:
        """Write a file as Spark does: whole, in one request, or under a temporary name first. What was written."""
        if caller.draw.random() < 0.5:
            return await self._put(caller, target, overwrite=onto is OntoExisting.REPLACE, whole=True)
        directory, _, name = target.rpartition("/")
        temporary = f"{directory}/.{name}.{self.name}-{self._key()}.tmp"
        written = await self._put(caller, temporary, overwrite=caller.draw.random() < 0.5)
        await self._ask(RenamePath(Attempt(""), JOB, temporary, self._epoch, target, onto), caller)
        return written

    async def _put(self, caller: Caller, path: str, *, overwrite: bool, whole: bool = False) -> str:
        content = f"{self.name} {self._key()} ".encode() * caller.draw.choice((1, 1, 20))
        blob, epoch = blob_of(content), self._epoch
        if not whole:
            await self._ask(TreeLook("redirect", JOB, path, epoch, overwrite), caller)
        kind = WholeFile if whole else PutFile
        put = kind(Attempt("", f"{self.name}.{self._key()}"), JOB, path, epoch, blob, None, overwrite)
        await self._ask(put, caller, content)
        return blob.sha256

    async def _ask(self, ask: Ask, caller: Caller | None = None, content: bytes = b"") -> Any:
        caller, plan = caller or self._caller, self._world.plan
        await asyncio.sleep(caller.draw.expovariate(1.0) * plan.pace)
        patience = min(caller.draw.uniform(1.0, 10.0) * plan.timeout, plan.settings.compact_after_seconds * 0.8)
        return (await caller.call(ask, content, patience))[0].body

    def _key(self) -> str:
        self._made += 1
        return f"{self._made}"
