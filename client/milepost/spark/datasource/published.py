"""The stream of published batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from milepost.job_record import Abandoned, JobRecord
from milepost.spark.datasource.file_systems import files_of
from milepost.spark.datasource.limits import ReadMaxFiles, SupportsTriggerAvailableNow
from milepost.spark.datasource.options import EARLIEST, LATEST, Options
from milepost.spark.datasource.parquet import partitions_of, rows_of
from milepost.spark.datasource.planning import PAUSE_SECONDS, PlannedStream
from milepost.spark.datasource.positions import Position, Stream, from_json
from milepost.spark.output.listing import consistent, listed_in, output_of
from milepost.spark.output.manifest import PublishedBatch

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

T = TypeVar("T")


class PublishedStream(PlannedStream, SupportsTriggerAvailableNow):
    """Reads the batches of a job in the order of their numbers. Its offsets are `Position`s.

    The planning process beside the driver has the options and a client; a copy for executors has neither.
    """

    def __init__(self, options: Options, schema: StructType, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(options, schema, clock)
        self._timeout = options.timeout
        self._latest: tuple[float, Position | None, Position] | None = None
        self._target: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_timeout": self._timeout, "_latest": None, "_target": None}

    def initialOffset(self) -> dict[str, Any]:
        """Return the position at which a new query begins."""
        where = self._planning.starting_batch

        def begin(stream: Stream) -> Position:
            if where == LATEST:
                return stream.newest()
            return stream.earliest() if where == EARLIEST else stream.before(int(where))

        return self._at(lambda stream, _: begin(stream)).to_json()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Return the position up to which the next batch of Spark reads.

        Spark passes ``start`` and ``limit`` from release 4.2 on.
        """
        begin = None if start is None else from_json(start)
        now = self._now()
        if self._latest is not None:
            asked, before, found = self._latest
            if before == begin and begin in (None, found) and now < asked + PAUSE_SECONDS:
                return found.to_json()
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        latest = self._at(
            lambda stream, _: stream.newest() if begin is None else stream.latest(begin, most, self._target)
        )
        self._latest = now, begin, latest
        return latest.to_json()

    def getDefaultReadLimit(self) -> Any:
        """Return the limit of ``maxBatchesPerTrigger``, in the form of one by files: Spark has none by batches."""
        most = self._planning.most_batches
        return super().getDefaultReadLimit() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the query end with the batch that is the newest now."""
        self._target = self._at(lambda _, record: record.published)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan the files between two positions."""
        begin, until = from_json(start), from_json(end)

        def plan(stream: Stream, record: JobRecord) -> tuple[str, list[PublishedBatch]]:
            return output_of(record), stream.between(begin, until)

        output, batches = self._at(plan)
        return partitions_of(output, batches, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the files of a partition, on an executor."""
        return rows_of(partition, self._schema, self._timeout)

    def _at(self, use: Callable[[Stream, JobRecord], T]) -> T:
        """Read the job record, and return what ``use`` makes of it."""
        options = self._planning

        def with_record(record: JobRecord) -> T:
            def listed(history: Abandoned, since: int) -> list[PublishedBatch]:
                files = files_of(str(history.manifest["output"]), options.timeout) if history.manifest else None
                return [] if files is None else listed_in(history, files, since, first=record.first_output)

            stream = Stream(
                options.store,
                record,
                listed,
                accepted=options.accept_restore,
                may_lose=not options.fail_on_data_loss,
            )
            return use(stream, record)

        return consistent(self._service(), options.store, with_record)
