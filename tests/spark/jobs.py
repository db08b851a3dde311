"""Jobs over small input, led in the test's own process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import milepost.spark
from milepost.core.checkpoint_location import checkpoint_location
from milepost.job_record import JobRecord
from milepost.spark import Job, JobRecovery
from milepost.spark.output.file_systems import HadoopFiles
from milepost.spark.takeover import TakenOver
from tests.spark.trials.queries import KINDS, read_input, write_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DEADLINE_SECONDS = 120


@dataclass(frozen=True)
class Place:
    """Where a job of a test runs."""

    spark: SparkSession
    url: str
    name: str
    directory: Path

    @property
    def input(self) -> Path:
        return self.directory / "in"

    @property
    def output(self) -> str:
        return str(self.directory / "out")

    @property
    def location(self) -> str:
        """The job's checkpoint location."""
        return checkpoint_location([self.url], self.name, 0).url

    def checkpoint(self) -> HadoopFiles:
        """Hadoop's file system under the settings that the session has now: while a job is led, those of its epoch."""
        return HadoopFiles(self.spark)

    def add_input(self, files: int) -> None:
        """Let there be so many files of input."""
        more = self.directory / f"more-{files}"
        write_input(more, files)
        for file in more.iterdir():
            if not (self.input / file.name).exists():
                file.rename(self.input / file.name)

    @contextmanager
    def lead(self, **options: Any) -> Iterator[Job]:
        """Lead the job; a driver that cannot within a minute fails."""
        chosen: dict[str, Any] = {"wait": 60.0, **options}
        with milepost.spark.lead(self.spark, self.url, self.name, **chosen) as job:
            yield job

    def start(
        self,
        job: Job,
        function: Callable[[DataFrame, int], None],
        kind: str = "stateless",
        *,
        source: str | None = None,
        forever: bool = False,
        **options: str,
    ) -> StreamingQuery:
        """Start the query over what input there is, or ``forever``.

        ``source`` is another name of the directory of input. ``options`` are the writer's.
        """
        frame = KINDS[kind].build(read_input(self.spark, source or str(self.input)))
        writer = frame.writeStream.outputMode(KINDS[kind].mode).foreachBatch(function)
        if "checkpointLocation" not in options:
            options["checkpointLocation"] = job.checkpointLocation
        writer = writer.options(**options)
        return (writer if forever else writer.trigger(availableNow=True)).start()

    def run(self, publish: Callable[[DataFrame, milepost.spark.BatchContext], Any], kind: str = "stateless") -> None:
        """Lead the job to the end of its input."""
        with self.lead() as job:
            finish(job, self.start(job, job.exactlyOnce(publish), kind))

    def die_before_commit(
        self, publish: Callable[[DataFrame, milepost.spark.BatchContext], Any], batch: int, kind: str = "stateless"
    ) -> None:
        """Lead the job until this batch is published; then its driver ends before Spark has noted that."""
        with self.lead() as job:
            function = job.exactlyOnce(publish)

            def call(frame: DataFrame, number: int) -> None:
                function(frame, number)
                if number == batch:
                    raise KeyError("dead")

            with pytest.raises(StreamingQueryException, match="dead"):
                finish(job, self.start(job, call, kind))
            assert job.published == batch


@contextmanager
def dying_in(batch: int) -> Iterator[None]:
    """In the block a driver runs that dies once the output of this batch is written, and not yet published."""
    publishing = JobRecord.publishing

    def dying(record: JobRecord, number: int, *rest: Any) -> JobRecord:
        if number == batch:
            raise KeyError("dead")
        return publishing(record, number, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobRecord, "publishing", dying)
        with pytest.raises(StreamingQueryException, match="dead"):
            yield


def made_up(pointer: Any, spark: Any = None, grace: float = 1.0) -> Job:
    """A job of epoch 1 that goes on at batch 4, without a service and without Spark."""
    nothing: Any = None
    location = checkpoint_location(["http://127.0.0.1:1"], "flights", 1)
    taken = TakenOver(nothing, pointer, location, nothing, JobRecovery(1, 4))
    connection: Any = {}
    return Job(spark, "flights", taken, nothing, connection, grace)


def finish(job: Job, query: StreamingQuery) -> None:
    """Wait for the end of the query."""
    assert job.awaitTermination(query, DEADLINE_SECONDS), "the query did not end in time"


def wait_until(holds: Callable[[], bool], deadline: float = 120.0) -> None:
    """Wait until something holds; what does not in ``deadline`` seconds fails."""
    until = time.monotonic() + deadline
    while not holds():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.05)
