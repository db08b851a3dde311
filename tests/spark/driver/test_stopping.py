"""Stopping a driver while a batch is being published: it counts once it was published whole, and not otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.java_gateway import ensure_callback_server_started

from milepost.errors import WrongCheckpoint
from milepost.spark import BatchContext, Job
from milepost.spark.driver.stopping import BatchGate
from tests.spark.jobs import Place, finish, wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

DEADLINE_SECONDS = 120.0


class Publisher:
    """Stands still in the first batch until it is let go, or until the stop interrupts ``during`` it."""

    def __init__(self, during: Callable[[], None]) -> None:
        self.inside = threading.Event()
        self.batches: list[int] = []
        self._during = during

    def __call__(self, _frame: DataFrame, context: BatchContext) -> str:
        self.batches.append(context.batchId)
        if len(self.batches) == 1:
            self.inside.set()
            self._during()
        return f"batch {context.batchId}"


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` in a thread of its own, and see it return."""
    thread = threading.Thread(target=stop)
    thread.start()
    yield
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()


def spark_that_sleeps(place: Place) -> None:
    """A call that a stop interrupts, as it would a write; the function takes it for a success all the same."""
    jvm: Any = place.spark.sparkContext._jvm
    with pytest.raises(Py4JJavaError, match="InterruptedException"):
        jvm.java.lang.Thread.sleep(int(DEADLINE_SECONDS * 1000))


def goes_on_at(job: Job) -> int:
    return job.recovery.resumes_at


class Uncaught:
    """Java's handler of what ends a thread; it keeps what that was."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def uncaughtException(self, thread: Any, error: Any) -> None:
        self.errors.append(f"{thread.getName()}: {error.toString()}")

    class Java:
        implements = ("java.lang.Thread$UncaughtExceptionHandler",)


@pytest.fixture
def nothing_uncaught(place: Place) -> Iterator[None]:
    """See that no thread of Spark's ends by an error, as that of a query does when Spark cannot tell a stop."""
    context: Any = place.spark.sparkContext
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    threads = context._jvm.java.lang.Thread
    uncaught = Uncaught()
    threads.setDefaultUncaughtExceptionHandler(uncaught)
    yield
    threads.setDefaultUncaughtExceptionHandler(None)
    assert uncaught.errors == []


@pytest.mark.usefixtures("nothing_uncaught")
def test_a_batch_that_is_being_published_is_published_to_its_end(place: Place) -> None:
    """And no other begins, though its input is there."""
    go = threading.Event()
    publisher = Publisher(lambda: None if go.wait(DEADLINE_SECONDS) else pytest.fail("nobody let it go"))
    with place.lead() as job:
        query = place.start(job, job.exactlyOnce(publisher), forever=True)
        assert publisher.inside.wait(DEADLINE_SECONDS)
        with stopping(job.stop):
            assert not threading.Event().wait(0.3)
            assert query.isActive
            go.set()
            finish(job, query)
        assert (job.published, job.manifest) == (0, "batch 0")
    assert publisher.batches == [0]
    with place.lead() as job:
        assert goes_on_at(job) == 1
        finish(job, place.start(job, job.exactlyOnce(publisher)))
    assert publisher.batches == [0, 1]


def spark_that_sleeps_and_is_missed(place: Place) -> None:
    """The same; the function goes on and fails for want of what was interrupted."""
    spark_that_sleeps(place)
    raise ValueError("cut short")


def spark_that_sleeps_and_is_told_of(place: Place) -> None:
    """The same, where Milepost itself has asked Spark, as for a file of the checkpoint."""
    jvm: Any = place.spark.sparkContext._jvm
    try:
        jvm.java.lang.Thread.sleep(int(DEADLINE_SECONDS * 1000))
    except Py4JJavaError as error:
        raise WrongCheckpoint("Spark cannot read it") from error


def spark_that_sleeps_and_raises(place: Place) -> None:
    """The same; the function lets Spark's error through, whose text has the stack of Java in it."""
    jvm: Any = place.spark.sparkContext._jvm
    jvm.java.lang.Thread.sleep(int(DEADLINE_SECONDS * 1000))


@pytest.mark.usefixtures("nothing_uncaught")
@pytest.mark.parametrize(
    "during",
    [
        spark_that_sleeps,
        spark_that_sleeps_and_is_missed,
        spark_that_sleeps_and_is_told_of,
        spark_that_sleeps_and_raises,
    ],
)
@pytest.mark.parametrize("way", ["job.stop beyond its grace", "query.stop"])
def test_a_batch_that_the_stop_cut_short_does_not_count(
    place: Place, way: str, during: Callable[[Place], None], caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says so without a traceback, of Java's or Python's."""
    publisher = Publisher(lambda: during(place))
    with place.lead(grace=0.1) as job:
        query = place.start(job, job.exactlyOnce(publisher), forever=True)
        assert publisher.inside.wait(DEADLINE_SECONDS)
        with stopping(query.stop if way == "query.stop" else job.stop):
            finish(job, query)
        assert query.exception() is None
        assert job.published == -1
    assert "Traceback" not in caplog.text
    assert "\tat " not in caplog.text
    place.run(publisher)
    assert publisher.batches == [0, 0, 1]


@pytest.mark.usefixtures("nothing_uncaught")
def test_a_stop_before_the_query_starts_stops_it_before_its_first_batch(place: Place) -> None:
    publisher = Publisher(lambda: None)
    with place.lead() as job:
        function = job.exactlyOnce(publisher)
        job.stop()
        query = place.start(job, function, forever=True)
        finish(job, query)
        assert query.exception() is None
    assert publisher.batches == []


def test_what_cannot_be_unpersisted_is_published_nevertheless(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a stop comes behind the last write, which cannot be had on time."""

    def publish(frame: DataFrame, context: BatchContext) -> int:
        def interrupted() -> None:
            raise Py4JError("interrupted")

        monkeypatch.setattr(frame, "unpersist", interrupted)
        return context.batchId

    with place.lead() as job:
        finish(job, place.start(job, job.exactlyOnce(publish)))
        assert (job.published, job.manifest) == (1, 1)


def test_who_only_watches_the_query_is_told_what_publishing_raised(place: Place) -> None:
    def publish(*_: Any) -> None:
        raise ValueError("the user's own")

    def body() -> None:
        with place.lead() as job:
            query = place.start(job, job.exactlyOnce(publish))
            while query.isActive:
                threading.Event().wait(0.05)

    with pytest.raises(StreamingQueryException) as raised:
        body()
    assert isinstance(raised.value.__cause__, ValueError)


def test_nobody_waits_for_a_batch_that_cannot_be_published_any_more() -> None:
    gate = BatchGate()
    assert gate.enter()
    threading.Timer(0.1, gate.hurry).start()
    assert not gate.close(DEADLINE_SECONDS)
    assert not gate.enter()


def test_a_batch_that_goes_on_though_nobody_waits_for_it_is_overdue() -> None:
    gate = BatchGate()
    assert gate.enter()
    assert gate.overdue_for == 0
    assert not gate.close(0.0)
    wait_until(lambda: gate.overdue_for > 0)
    gate.leave()
    assert gate.overdue_for == 0


def test_a_batch_is_overdue_from_when_somebody_hurries() -> None:
    gate = BatchGate()
    assert gate.enter()
    gate.hurry()
    assert not gate.close(DEADLINE_SECONDS)
    wait_until(lambda: gate.overdue_for > 0)


def test_an_empty_house_is_closed_at_once() -> None:
    gate = BatchGate()
    assert gate.enter()
    gate.leave()
    assert not gate.close(DEADLINE_SECONDS)
    assert not gate.enter()
