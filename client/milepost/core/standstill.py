"""Measures the time for which the keeper of a session, the thread or task that renews it, could not run: often the
reason why a session was not renewed.

A keeper that asks for a second of sleep and gets twenty could not run, whatever the service did. So this module
measures only how long the keeper sleeps; a request may also take long because of the network.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import Any, TypeVar

from milepost.core.clock import Clock
from milepost.core.effects import Operation, Sleep
from milepost.wire import MAX_TTL_SECONDS

T = TypeVar("T")
_TICK = 1.0
"""The seconds that a keeper sleeps at a time. A process that stops and continues within one sleep goes unnoticed."""
_BUSY = 0.5
"""If this process used at least this share of a standstill as CPU time, it counts as busy rather than stopped."""


@dataclass(frozen=True)
class Runner:
    """Describes the thread or event loop that runs a keeper, for an error: what stops the keeper if the process is
    ``busy``, or if it is ``waiting``, and the remedy.
    """

    name: str
    busy: str
    waiting: str
    remedy: str


INTERPRETER = Runner(
    "this process's Python",
    "a call kept the interpreter's lock, as regular expressions, numpy and some drivers do",
    "a call kept the interpreter's lock while it waited, the process was stopped, or the machine slept",
    "a call like that needs",
)
EVENT_LOOP = Runner(
    "the event loop of this session",
    "a call on it computed, or one in another thread kept the interpreter's lock",
    "a call on it blocked, the process was stopped, or the machine slept",
    "make such a call in a thread (asyncio.to_thread); one that keeps the interpreter's lock needs",
)


@dataclass(frozen=True)
class _Measured:
    """What was measured since the last renewal: the ``seconds`` of standstill, and the CPU seconds that the process
    ``used`` meanwhile.

    The present sleep of the keeper should end at ``due`` (monotonic); ``cpu`` is the CPU time of the process when that
    sleep began.
    """

    seconds: float = 0.0
    used: float = 0.0
    due: float = math.inf
    cpu: float = 0.0


class Standstill:
    """The time for which the keeper of a session could not run since the last renewal.

    The keeper updates this object. Any thread may read it, also while the keeper does not run.
    """

    def __init__(self, clock: Clock, cpu: Clock = time.process_time) -> None:
        self.runner = INTERPRETER
        self._clock = clock
        self._cpu = cpu
        self._process = os.getpid()
        self._measured = _Measured()  # replaced as a whole, because other threads read it meanwhile

    @property
    def seconds(self) -> float:
        """The seconds of standstill; 0 in a forked child, where no keeper runs."""
        return self._now().seconds if self._process == os.getpid() else 0.0

    def forget(self) -> None:
        """Begin the measurement again at 0, because the session was renewed."""
        self._measured = _Measured()

    def describe(self) -> str:
        """Describe, for an error, the length of the standstill, its possible cause, and the TTL that outlasts it."""
        now, runner = self._now(), self.runner
        cause = runner.busy if now.used >= now.seconds * _BUSY else runner.waiting
        # A renewal is due when a third of the ttl has passed, so the other two thirds must outlast the standstill.
        enough = min(MAX_TTL_SECONDS, math.ceil(2 * now.seconds))
        return (
            f"{runner.name} stood still for {now.seconds:.1f} s, in which the process used {now.used:.1f} s of CPU "
            f"time: {cause}; {runner.remedy} a ttl of at least {enough:g} s"
        )

    def watch(self, operation: Operation[T]) -> Operation[T]:
        """Carry out ``operation``, that of the keeper. Split each of its sleeps into pieces of `_TICK` seconds, and
        measure how much longer each piece lasts.
        """
        resumed: Any = None
        try:
            while True:
                try:
                    effect = operation.send(resumed)
                except StopIteration as done:
                    result: T = done.value
                    return result
                if isinstance(effect, Sleep):
                    resumed = None
                    until = self._clock() + effect.seconds
                    while (left := until - self._clock()) > 0:
                        yield from self._sleep(min(left, _TICK))
                else:
                    resumed = yield effect
        finally:
            operation.close()

    def _sleep(self, seconds: float) -> Operation[None]:
        before = self._measured
        self._measured = _Measured(before.seconds, before.used, self._clock() + seconds, self._cpu())
        try:
            yield Sleep(seconds)
            before = self._now()
        finally:
            self._measured = _Measured(before.seconds, before.used)

    def _now(self) -> _Measured:
        measured = self._measured
        late = self._clock() - measured.due
        if late <= 0:
            return measured
        return _Measured(measured.seconds + late, measured.used + self._cpu() - measured.cpu)
