"""A replica's process: it runs, pauses, goes on, stops in order, and dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeVar

from milepost.errors import Problem
from milepost_server.replica.replica import Replica
from tests.simulation.callers.calls import Call, GoodAnswer, serve
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.world.loop import OWNER, Owner, VirtualLoop
from tests.simulation.world.network import Line

T = TypeVar("T")


class Lost(NamedTuple):
    """No answer came; ``sent`` unless it is certain that no replica saw the request."""

    sent: bool


Result = GoodAnswer | Problem | Lost


class Attempt:
    """One request on the wire. ``answer`` ends with what its client gets."""

    __slots__ = ("answer", "call", "number", "task")

    def __init__(self, call: Call, number: int, answer: asyncio.Future[Result]) -> None:
        self.call = call
        self.number = number
        self.answer = answer
        self.task: asyncio.Task[Result] | None = None

    def end(self, result: Result) -> None:
        """The client gets ``result``, unless it got something before or does not wait any more."""
        if not self.answer.done():
            self.answer.set_result(result)


class Program(Owner):
    """What runs in a process: it pauses, goes on, and dies."""

    def __init__(self, name: str, loop: VirtualLoop) -> None:
        super().__init__()
        self.name = name
        self.alive = True
        self.loop = loop
        self._context = loop.outside.copy()
        self._context.run(OWNER.set, self)

    def spawn(self, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a task in the process."""
        return self.loop.create_task(coro, context=self._context)

    @property
    def runs(self) -> bool:
        """Whether any of its tasks has not ended."""
        return any(not task.done() for task in self.tasks)

    def pause(self) -> None:
        """SIGSTOP."""
        self.loop.pause(self)

    def go_on(self) -> None:
        """SIGCONT."""
        self.loop.go_on(self)

    def kill(self) -> None:
        """SIGKILL: nothing that it has not sent yet leaves it any more, and all that it knew is gone.

        Its tasks are ended too, so that none of them is left behind; what they do while they end has no effect.
        """
        if not self.alive:
            return
        self.alive = False
        self.cut_off()
        self.go_on()
        for task in self.tasks:
            task.cancel()

    def cut_off(self) -> None:
        """End what connects it with others, as it dies."""


class Process(Program):
    """One incarnation of a replica. Its name is never used again."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        build: Callable[[], Replica],
        lines: dict[str, Line],
        latency: Callable[[], float],
    ) -> None:
        super().__init__(name, loop)
        self.stopping = False
        self.lines = lines
        self.latency = latency
        self._open: dict[Attempt, None] = {}
        self.replica = self._context.run(build)
        self.replica.on_fault = self._faulted
        self._start = self.spawn(self.replica.start())

    # -- requests --------------------------------------------------------------------------------------------------

    def receive(self, attempt: Attempt) -> None:
        """A request arrives at the machine."""
        if not self.alive:
            attempt.call.undelivered -= 1
            attempt.end(Lost(sent=True))
            return
        attempt.task = self.spawn(self._serve(attempt))
        attempt.task.add_done_callback(partial(self._served, attempt), context=self.loop.outside)
        self._open[attempt] = None

    async def _serve(self, attempt: Attempt) -> Result:
        attempt.call.undelivered -= 1
        try:
            return await serve(self.replica, attempt.call, attempt.number, self.replica.clock())
        except Problem as problem:
            return problem

    def _served(self, attempt: Attempt, task: asyncio.Task[Result]) -> None:
        del self._open[attempt]
        if task.cancelled() or not self.alive:
            return
        if (fault := task.exception()) is not None:
            raise Violation(Invariant.NO_FAULT, f"{self.name} failed at {attempt.call}: {fault!r}") from fault
        self.loop.call_later(self.latency(), attempt.end, task.result(), context=self.loop.outside)

    # -- its life --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """SIGTERM: step down in order, then end."""
        self.stopping = True
        self.spawn(self._stop())

    async def _stop(self) -> None:
        await self.replica.stop()
        self.loop.call_soon(self.kill, context=self.loop.outside)

    def cut_off(self) -> None:
        """Its connections end."""
        for line in self.lines.values():
            line.dead = True
        for attempt in self._open:
            self.loop.call_later(self.latency(), attempt.end, Lost(sent=True), context=self.loop.outside)

    def _faulted(self) -> None:
        task = self.replica._task
        assert task is not None
        raise Violation(Invariant.NO_FAULT, f"{self.name} failed: {task.exception()!r}") from task.exception()
