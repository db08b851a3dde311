"""Leading a job with a real Spark and the real service: what is published, and what the next driver finds."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.functions import udf

import milepost
import milepost.spark
from milepost.errors import InputMissing, NoProgress
from milepost.job_record import JOB, JobRecord, decode
from milepost.spark import BatchContext, Job
from milepost.spark.pointer import JobPointer
from tests.spark.jobs import Place, finish
from tests.spark.trials.queries import KINDS, read_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


class Publisher:
    """Keeps the rows that it is asked to publish; fails at the batches it is told to."""

    def __init__(self, *failing: int) -> None:
        self.failing = failing
        self.rows: dict[int, list[tuple[int, int]]] = {}
        self.contexts: list[BatchContext] = []

    def __call__(self, frame: DataFrame, context: BatchContext) -> dict[str, int]:
        self.contexts.append(context)
        if context.batchId in self.failing:
            raise KeyError("no such place")
        self.rows[context.batchId] = sorted((row.k, row.w) for row in frame.collect())
        return {"rows": len(self.rows[context.batchId])}


@pytest.mark.promise
@pytest.mark.parametrize("kind", ["stateless", "aggregation"])
def test_each_batch_is_published_and_the_next_driver_goes_on_behind_the_last(place: Place, kind: str) -> None:
    publisher = Publisher()
    place.run(publisher, kind)
    place.add_input(4)
    place.run(publisher, kind)
    assert publisher.rows == dict(enumerate(KINDS[kind].expected(4)))
    assert [context.batchId for context in publisher.contexts] == [0, 1, 2, 3]
    assert [context.epoch for context in publisher.contexts] == [1, 1, 2, 2]
    assert [context.attempt for context in publisher.contexts] == [1, 1, 1, 1]
    assert len({context.txnAppId for context in publisher.contexts}) == 1
    assert [context.txnVersion for context in publisher.contexts] == [0, 1, 2, 3]
    manifests = [None, *({"rows": len(rows)} for rows in KINDS[kind].expected(3))]
    assert [context.previous_manifest for context in publisher.contexts] == manifests


def test_nothing_new_calls_nothing(place: Place) -> None:
    publisher = Publisher()
    place.run(publisher)
    place.run(publisher)
    assert len(publisher.contexts) == 2


def test_staging_directories_differ_and_say_whose_they_are() -> None:
    context = BatchContext(7, 3, 1, "0123456789abcdef")
    first, second = context.staging("/out/"), context.staging("/out")
    assert first.startswith("/out/batch=7/e3-0123456789ab")
    assert first != second


def test_a_job_says_how_far_it_is(place: Place) -> None:
    with place.lead() as job:
        assert (job.epoch, job.published, job.manifest) == (1, -1, None)
        assert job.checkpointLocation == place.location
        assert job.recovery.resumes_at == 0
        finish(job, place.start(job, job.exactlyOnce(Publisher())))
        assert (job.published, job.manifest) == (1, {"rows": len(KINDS["stateless"].expected(2)[1])})
    with place.lead() as job:
        assert (job.epoch, job.published) == (2, 1)
        assert (job.recovery.resumes_at, job.recovery.replays) == (2, False)


def evaluated(place: Place, function: Callable[[Job], Callable[[DataFrame, int], None]]) -> int:
    """How many rows Spark computed for a job over two files, together."""
    evaluations = place.spark.sparkContext.accumulator(0)

    def count(key: int) -> int:
        evaluations.add(1)
        return key

    place.spark.udf.register("counted", udf(count, "long", useArrow=False))
    with place.lead() as job:
        frame = KINDS["stateless"].build(read_input(place.spark, str(place.input))).selectExpr("counted(k) AS k", "w")
        writer = frame.writeStream.option("checkpointLocation", job.checkpointLocation)
        query = writer.foreachBatch(function(job)).trigger(availableNow=True).start()
        finish(job, query)
    return int(evaluations.value)


@pytest.mark.promise
def test_the_frame_is_evaluated_once_however_it_is_used(place: Place) -> None:
    def publish(frame: DataFrame, context: BatchContext) -> None:
        if context.batchId == 0:
            assert frame.count() == len(frame.collect())
            assert not frame.isEmpty()

    rows = evaluated(place, lambda job: job.exactlyOnce(publish))
    assert rows == sum(len(rows) for rows in KINDS["stateless"].expected(2))


def test_files_are_written_by_the_one_evaluation_there_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither another pass nor anything that is kept of the frame, which would cost more than the rest together."""
    monkeypatch.setattr(ClassicFrame, "persist", lambda *_: pytest.fail("the frame is kept"))
    rows = evaluated(place, lambda job: job.files(place.output))
    assert rows == sum(len(rows) for rows in KINDS["stateless"].expected(2))


def test_a_driver_notes_its_first_batch_before_its_function_is_called_and_then_moves_once_a_batch(
    place: Place, client: milepost.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has logged the offsets of the later ones under this driver's epoch, which says as much."""
    entered: list[int] = []
    processes: list[milepost.Process | None] = []
    moves: list[JobRecord] = []
    move = JobPointer.move

    def counted(pointer: JobPointer, record: JobRecord, *act: Any) -> None:
        moves.append(record)
        move(pointer, record, *act)

    def publish(_frame: DataFrame, _context: BatchContext) -> None:
        entered.append(decode(client.store(place.name).read(JOB)).entered)
        processes.append(client.job_info(place.name).process)

    monkeypatch.setattr(JobPointer, "move", counted)
    place.run(publish)
    assert entered == [0, -1]
    context = place.spark.sparkContext
    assert set(processes) == {milepost.Process(platform.node(), os.getpid(), context.applicationId, context.uiWebUrl)}
    assert [(record.entries, record.published) for record in moves] == [(1, -1), (0, 0), (0, 1)]
    batches = {each.batch: each.input_rows for each in client.job_history(place.name) if each.batch is not None}
    files = sorted(place.input.iterdir())
    assert batches == {batch: len(file.read_text().splitlines()) for batch, file in enumerate(files)}


def test_a_function_that_takes_a_little_leaves_all_of_the_state(place: Place) -> None:
    """Without the evaluation before it, partitions that it does not read would have no state for the next batch."""
    publisher = Publisher()

    def publish(frame: DataFrame, context: BatchContext) -> None:
        if context.batchId == 0:
            assert len(frame.take(1)) == 1
        else:
            publisher(frame, context)

    place.run(publish, "aggregation")
    assert publisher.rows == {1: KINDS["aggregation"].expected(2)[1]}


@pytest.mark.promise
def test_what_publishing_raises_is_the_cause_and_the_batch_is_run_again(place: Place) -> None:
    failing, publisher = Publisher(1), Publisher()
    with place.lead() as job, pytest.raises(StreamingQueryException) as raised:
        finish(job, place.start(job, job.exactlyOnce(failing)))
    assert isinstance(raised.value.__cause__, KeyError)
    place.run(publisher)
    assert list(publisher.rows) == [1]
    assert failing.rows | publisher.rows == dict(enumerate(KINDS["stateless"].expected(2)))
    assert publisher.contexts[0].attempt == 2


@pytest.mark.promise
@pytest.mark.parametrize("batch", [0, 1])
def test_a_published_batch_without_sparks_commit_is_evaluated_and_not_published_again(place: Place, batch: int) -> None:
    publisher = Publisher()
    place.die_before_commit(publisher, batch, "aggregation")
    place.add_input(3)
    with place.lead(max_entries=1) as job:
        assert (job.recovery.resumes_at, job.recovery.replays, job.recovery.entries) == (batch, True, 0)
        finish(job, place.start(job, job.exactlyOnce(publisher), "aggregation"))
    assert [context.batchId for context in publisher.contexts] == [0, 1, 2]
    assert publisher.rows == dict(enumerate(KINDS["aggregation"].expected(3)))


def test_drivers_that_die_while_they_evaluate_a_published_batch_again_are_counted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher()
    place.die_before_commit(publisher, 1, "aggregation")

    def dead(*_: Any) -> None:
        raise KeyError("dead")

    with monkeypatch.context() as broken:
        broken.setattr(JobRecord, "replayed", dead)
        for entries in (0, 1):
            with place.lead() as job:
                assert job.recovery.entries == entries
                with pytest.raises(StreamingQueryException):
                    finish(job, place.start(job, job.exactlyOnce(publisher), "aggregation"))
    with pytest.raises(NoProgress, match="batch 1 was entered 2 times"), place.lead(max_entries=2):
        pass
    place.run(publisher, "aggregation")
    assert [context.batchId for context in publisher.contexts] == [0, 1]


def fail_in_batch_one(place: Place, source: str | None = None) -> None:
    with place.lead() as job, pytest.raises(StreamingQueryException):
        finish(job, place.start(job, job.exactlyOnce(Publisher(1)), source=source))


def test_replays_without_progress_are_reported(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        fail_in_batch_one(place)
    assert "without" not in caplog.text
    fail_in_batch_one(place)
    assert "replays without progress: this is entry no. 3 to batch 1" in caplog.text
    with place.lead() as job:
        assert job.recovery.entries == 3


@pytest.fixture
def known_to_the_session(place: Place) -> Iterator[str]:
    """The directory of input under a name that the settings of this session alone tell how to find.

    Hadoop keeps no file system for it, or one would be there that another part of this process was given.
    """
    settings = {
        "fs.viewfs.impl.disable.cache": "true",
        f"fs.viewfs.mounttable.{place.name}.link./in": f"file:{place.input}",
    }
    for key, value in settings.items():
        place.spark.conf.set(key, value)
    yield f"viewfs://{place.name}/in"
    for key in settings:
        place.spark.conf.unset(key)


@pytest.mark.promise
def test_input_that_was_deleted_is_refused_and_rewritten_input_reported(
    place: Place, known_to_the_session: str
) -> None:
    fail_in_batch_one(place, known_to_the_session)
    file, away = place.input / "00001.json", place.directory / "away"
    file.rename(away)
    with pytest.raises(InputMissing, match=r"00001\.json"), place.lead():
        pass
    away.rename(file)
    with place.lead() as job:
        assert job.recovery.rewritten == ()
    file.write_text(file.read_text())
    with place.lead() as job:
        assert [Path(uri).name for uri in job.recovery.rewritten] == ["00001.json"]


@pytest.mark.parametrize(("session", "effective"), [("5", "5"), (None, "200")], ids=["set", "Spark's default"])
def test_settings_that_the_querys_log_overrules_are_reported(
    place: Place, caplog: pytest.LogCaptureFixture, session: str | None, effective: str
) -> None:
    key = "spark.sql.shuffle.partitions"
    place.run(Publisher(), "aggregation")
    place.spark.conf.unset(key) if session is None else place.spark.conf.set(key, session)
    try:
        with caplog.at_level(logging.WARNING), place.lead() as job:
            assert [(found.key, found.logged, found.session) for found in job.recovery.conf] == [(key, "2", effective)]
    finally:
        place.spark.conf.set(key, "2")
    assert "wins over" in caplog.text


@pytest.mark.promise
def test_leaving_the_block_stops_the_query_and_the_next_driver_goes_on_behind_it(place: Place) -> None:
    publisher = Publisher()
    with place.lead() as job:
        query = place.start(job, job.exactlyOnce(publisher), forever=True)
        query.processAllAvailable()
    assert not query.isActive
    with place.lead() as job:
        assert (job.recovery.resumes_at, job.recovery.replays) == (2, False)


def test_an_error_in_the_block_stays_what_it_is(place: Place) -> None:
    def body() -> None:
        with place.lead() as job:
            place.start(job, job.exactlyOnce(Publisher()), forever=True)
            raise KeyError("the program's own")

    with pytest.raises(KeyError, match="the program's own"):
        body()
    assert place.spark.streams.active == []


def test_spark_reads_the_files_of_a_job_as_it_reads_any_others(place: Place) -> None:
    place.run(Publisher())
    with place.lead() as job:
        logged = place.spark.read.text(f"{job.checkpointLocation}/commits").collect()
    assert min(row.value for row in logged) == "v1"
