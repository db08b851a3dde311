"""A batch whose own function stops the job: no batch can be waited for by itself. Without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from milepost.job_record import JobRecord
from milepost.spark import Job
from milepost.spark.driver.stopping import BatchGate
from tests.spark.jobs import made_up, wait_until

DEADLINE_SECONDS = 60.0


class Query:
    """A query that notes its stop, which waits for the batch inside as Spark's does."""

    runId = "run"
    isActive = True
    lastProgress = None
    _jsq = SimpleNamespace(recentProgress=list)

    def __init__(self, gate: BatchGate, error: Exception | None = None) -> None:
        self.stopped = threading.Event()
        self._gate = gate
        self._error = error

    def stop(self) -> None:
        assert self._gate.closed
        while self._gate.occupied_for:
            threading.Event().wait(0.01)
        self.stopped.set()
        if self._error is not None:
            raise self._error


class Led:
    """A job whose function is called as Spark calls it."""

    def __init__(self, error: Exception | None = None, grace: float = DEADLINE_SECONDS) -> None:
        pointer: Any = SimpleNamespace(record=JobRecord("job", 1, 3), store=SimpleNamespace(epoch=1))
        spark: Any = SimpleNamespace(streams=SimpleNamespace(active=[]))
        self.job = made_up(pointer, spark, grace)
        self.job.exactlyOnce(lambda *_: None)
        assert self.job._function is not None
        self.gate = self.job._function.gate
        self.query = Query(self.gate, error)
        awaited: Any = self.query
        self.job._queries.awaited = awaited

    def stop_inside(self) -> None:
        """Have the function of a batch stop the job, in a thread of its own as Py4J's callbacks have it."""

        def batch() -> None:
            assert self.gate.enter()
            try:
                self.job.stop()
            finally:
                self.gate.leave()

        thread = threading.Thread(target=batch, daemon=True)
        thread.start()
        thread.join(DEADLINE_SECONDS / 4)
        assert not thread.is_alive(), "the batch waits for itself"


def test_the_batch_goes_on_and_the_query_is_stopped_behind_it() -> None:
    led = Led()
    led.stop_inside()
    assert not led.gate.enter()
    assert led.query.stopped.wait(DEADLINE_SECONDS)
    assert led.gate.overdue_for == 0


def test_a_spark_that_is_gone_by_then_fails_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    led = Led(Py4JNetworkError("gone"))
    led.stop_inside()
    wait_until(lambda: "Spark does not answer any more" in caplog.text, DEADLINE_SECONDS)


@pytest.mark.parametrize("stop", [Led.stop_inside, lambda led: led.job.stop()])
def test_a_job_that_was_stopped_says_so(stop: Callable[[Led], None]) -> None:
    led = Led()
    assert not led.job.stopped
    stop(led)
    assert led.job.stopped


def test_a_job_that_its_block_or_a_lost_session_ends_was_not_stopped() -> None:
    for end in (Job.close, Job.abandon):
        led = Led()
        end(led.job)
        assert led.query.stopped.wait(DEADLINE_SECONDS)
        assert not led.job.stopped


def test_others_wait_for_the_batch() -> None:
    led = Led()
    assert led.gate.enter()
    stopping = threading.Thread(target=led.job.stop)
    stopping.start()
    stopping.join(0.2)
    assert stopping.is_alive()
    led.gate.leave()
    stopping.join(DEADLINE_SECONDS)
    assert led.query.stopped.is_set()


def test_a_gate_knows_who_is_inside() -> None:
    gate, seen = BatchGate(), list[bool]()
    assert not gate.inside
    assert gate.enter()
    assert gate.inside
    other = threading.Thread(target=lambda: seen.append(gate.inside))
    other.start()
    other.join(DEADLINE_SECONDS)
    assert seen == [False]
    gate.leave()
    assert not gate.inside
    gate.shut()
    assert not gate.enter()
    assert not gate.inside
