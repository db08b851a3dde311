"""An event loop with a clock of its own: when nothing is ready, time jumps to the next timer. No thread, no socket.

Callbacks run in the order in which they were scheduled, timers in the order of their times, so a run is decided by
what runs in it and by nothing else. Each callback belongs to the process in whose context it was scheduled; those of a
paused process are held back until it goes on, as SIGSTOP and SIGCONT do.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MOST_TURNS_WITHOUT_TIME = 200_000
_MOST_TURNS_TO_END = 1_000
_FEW = 1_000


class Owner:
    """Whom callbacks belong to: a process of the simulated world."""

    def __init__(self) -> None:
        self.paused = False
        self.held: list[_Event] = []
        self.tasks: dict[asyncio.Task[Any], None] = {}


OWNER: ContextVar[Owner | None] = ContextVar("OWNER", default=None)


class _Event(asyncio.TimerHandle):
    """A callback and its context. Nothing more is needed, and there are ten of them a request."""

    __slots__ = ()

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True


class Stalled(Exception):
    """Nothing can happen any more, or things happen without end and no time passes."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """See the module. What goes wrong in a callback ends the run."""

    def __init__(self) -> None:
        self._now = 0.0
        self._ready: deque[_Event] = deque()
        self._timers: list[tuple[float, int, _Event]] = []
        self._scheduled = 0
        self._running = False
        self._fault: BaseException | None = None
        self._paused: list[Owner] = []
        self.outside = Context()
        """The context of what belongs to no process."""

    def time(self) -> float:
        return self._now

    # -- scheduling ------------------------------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.Handle:
        event = _Event(self._now, callback, args, copy_context() if context is None else context)
        self._ready.append(event)
        return event

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.TimerHandle:
        event = _Event(when, callback, args, copy_context() if context is None else context)
        self._scheduled += 1
        heapq.heappush(self._timers, (when, self._scheduled, event))
        return event

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        owner = OWNER.get() if context is None else context.get(OWNER)
        if owner is not None:
            if len(owner.tasks) >= _FEW:
                owner.tasks = {known: None for known in owner.tasks if not known.done()}
            owner.tasks[task] = None
        return task

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]) -> asyncio.Future[T]:
        """Do it at once: what the service has done beside the loop only computes."""
        assert executor is None
        done: asyncio.Future[T] = self.create_future()
        done.set_result(func(*args))
        return done

    # -- pausing ---------------------------------------------------------------------------------------------------

    def pause(self, owner: Owner) -> None:
        """Hold back what belongs to ``owner``, and all that is scheduled for it from now on."""
        if not owner.paused:
            owner.paused = True
            self._paused.append(owner)

    def go_on(self, owner: Owner) -> None:
        """Let it go on: what was held back runs now."""
        if owner.paused:
            owner.paused = False
            self._paused.remove(owner)
            self._ready.extend(owner.held)
            owner.held = []

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run ``main`` to its end. Raises what it raises, and what went wrong in any callback."""
        asyncio.events._set_running_loop(self)
        self._running = True
        try:
            task = self.create_task(main, context=self.outside)
            while not task.done() and self._fault is None:
                self._advance()
            if self._fault is not None:
                raise self._fault
            return task.result()
        finally:
            self._abandon()
            self._running = False
            asyncio.events._set_running_loop(None)

    def _abandon(self) -> None:
        """End what is left, so that it does not end when it is collected; nobody cares any more how."""
        for owner in list(self._paused):
            self.go_on(owner)
        for _ in range(_MOST_TURNS_TO_END):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            with suppress(Exception):
                self._advance()

    def _advance(self) -> None:
        """Let all happen that happens now, then jump to the next timer."""
        turns = 0
        ready = self._ready
        while ready:
            turns += 1
            if turns > _MOST_TURNS_WITHOUT_TIME:
                raise Stalled(f"no end of what happens at {self._now}: {ready[0]}")
            event = ready.popleft()
            if event._cancelled:
                continue
            if self._paused:
                owner = event._context.get(OWNER)
                if owner is not None and owner.paused:
                    owner.held.append(event)
                    continue
            event._context.run(event._callback, *event._args)
        if not self._timers:
            raise Stalled(f"nothing will ever happen after {self._now}")
        self._now = max(self._now, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now:
            event = heapq.heappop(self._timers)[2]
            if not event._cancelled:
                ready.append(event)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        fault = context.get("exception")
        if self._fault is None:
            self._fault = fault if isinstance(fault, BaseException) else RuntimeError(str(context.get("message")))

    def get_task_factory(self) -> None:
        """None: `create_task` makes plain tasks."""

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False
