"""The trial of a job under ``milepost run``: its driver dies with a batch in the sinks, the next one goes on too late.

1. The first driver is killed while the commit of batch 1 stands at the gate: each sink has the batch, Spark's log not.
2. The standby's driver goes on. With a task of each query in the midst of batch 2, its supervisor stands still until
   its session has run out; the driver itself runs on.
3. The first supervisor stands by meanwhile, leads, and its next driver runs the job to the end of its input.
4. Then the tasks of the second driver go on into their sinks.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.spark.guarantees.gate import Ask, Gate
from tests.spark.guarantees.outputs import KILLED_IN, Outputs
from tests.spark.supervise.supervised import Supervised

FIRST, SECOND, THIRD = 1, 2, 3
_TTL = "12"
_OVER = re.compile(r"epoch 2 of job \S+ is lost|the command ended with status \d+ under epoch 2")


def commit_of(batch: int) -> Callable[[Ask], bool]:
    """The point at which Spark notes that a batch is done."""
    return lambda asked: (asked.log, asked.batch) == ("commits", batch)


class Run:
    """One such trial. ``command`` makes the command of a driver, and ``began`` is called once one was started."""

    def __init__(
        self,
        gate: Gate,
        job: str,
        outputs: Outputs,
        sinks: Sequence[str],
        command: Callable[[int], Sequence[str]],
        logs: Path,
        began: Callable[[int, Supervised], None] = lambda _number, _run: None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._gate = gate
        self._outputs = outputs
        self._sinks = list(sinks)
        self._began = began

        def supervisor(number: int, log: str) -> Supervised:
            options = ["--ttl", _TTL, "--standby"]
            return Supervised(gate.url, job, logs / log, options, command(number), **(environment or {}))

        self._one, self._other = supervisor(1, "one.log"), supervisor(2, "other.log")

    def go(self, late: Callable[[Supervised], bool] | None, finished: Callable[[Supervised], None]) -> None:
        """Have it all happen; without ``late``, the second driver is the last.

        ``late`` says whether the driver that came too late has done what it could, and ``finished`` waits for the end
        of the last driver's work; both get the supervisor.
        """
        one, other = self._one, self._other
        self._gate.stop_at(commit_of(KILLED_IN))
        with ExitStack() as stack:
            stack.enter_context(one).until(one.starts)
            stack.enter_context(other)
            self._began(FIRST, one)
            one.until(lambda: self._gate.held == set(self._sinks))
            if late is not None:
                self._outputs.arm(self._sinks)
            one.send_command(signal.SIGKILL)
            other.until(other.starts)
            self._gate.open()
            self._began(SECOND, other)
            if late is None:
                finished(other)
                return
            other.until(lambda: self._outputs.stands(self._sinks))
            other.send(signal.SIGSTOP)
            one.until(lambda: len(one.starts()) == 2)
            self._began(THIRD, one)
            finished(one)
            self._outputs.let_go()
            other.until(lambda: late(other))
            assert [epoch for epoch, _ in one.starts()] == [FIRST, THIRD]
            assert [epoch for epoch, _ in other.starts()] == [SECOND]
            other.send(signal.SIGCONT)
            other.until(lambda: _OVER.search(other.log()))
