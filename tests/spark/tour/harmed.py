"""Jobs to be harmed: each has a right and a wrong release, and says whether its source, state and output are exact."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import milepost
import milepost.spark
from milepost.spark import Job
from milepost.state.store import TreeFiles
from milepost.types import Snapshot
from tests.spark.jobs import Place, finish
from tests.spark.stateful.processors import COUNTED, Count
from tests.spark.stateful.texts import WORDS, write_texts
from tests.spark.trials.queries import KINDS, lines, read_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from milepost.spark import BatchContext

KIND = KINDS["aggregation"]


class Sums(Place):
    """A job that sums the values of each key, with state of Spark's operators in RocksDB; batch N reads file N."""

    def release(
        self, job: Job, wrong: bool = False, output: str = "k, w", sink: Any = None, forever: bool = False
    ) -> StreamingQuery:
        """Start a release, which counts one too many for each row if it is ``wrong``, and puts out these columns."""

        def transform(frame: DataFrame, _: BatchContext) -> DataFrame:
            return frame.selectExpr(*output.split(", "))

        read = read_input(self.spark, str(self.input)).selectExpr("k", f"v + {int(wrong)} AS v")
        function = job.files(self.output, transform=transform) if sink is None else job.exactlyOnce(sink)
        writer = KIND.build(read).writeStream.outputMode(KIND.mode).foreachBatch(function)
        writer = writer.option("checkpointLocation", job.checkpointLocation)
        return (writer if forever else writer.trigger(availableNow=True)).start()

    def to_the_end(self, **options: Any) -> Job:
        """Lead the job to the end of its input."""
        with self.lead() as job:
            finish(job, self.release(job, **options))
        return job

    def published(self) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        for row in milepost.spark.read_published(self.spark, self.url, self.name).collect():
            found.setdefault(row.batch, []).append((row.k, row.w))
        return {batch: sorted(of) for batch, of in found.items()}

    def check(self, files: int, batches: Sequence[int] | None = None) -> None:
        """Each of so many files was read once, by a batch of these numbers, and state and output have its values."""
        expected = KIND.rows([lines(index) for index in range(files)])
        assert self.published() == dict(zip(batches or range(files), expected, strict=True))
        self.check_source_and_state(files)

    def check_source_and_state(self, files: int) -> None:
        assert len(self.read_files()) == len(set(self.read_files())) == files
        assert self.state() == dict(row for rows in KIND.rows([lines(index) for index in range(files)]) for row in rows)

    def read_files(self) -> list[str]:
        """The files that Spark's log of the source names."""
        with milepost.Client(self.url) as client:
            files = client.store(self.name).files
            logs = [files.read(log.path).decode() for log in files.list("checkpoint/sources/0")]
        named = {line for log in logs for line in log.splitlines()[1:]}  # compacted logs repeat older entries
        return sorted(Path(urlsplit(json.loads(entry)["path"]).path).name for entry in named)

    def state(self) -> dict[int, int]:
        """The sum of each key in the state of Spark's operator."""
        rows = self.spark.read.format("statestore").load(self.location).select("key.k", "value.*").collect()
        found = {row[0]: row[1] for row in rows}
        assert len(found) == len(rows)
        return found

    def snapshot(self, batch: int) -> Snapshot:
        with milepost.Client(self.url) as client:
            kept = client.store(self.name).files.snapshots()
        return next(each for each in kept.snapshots if each.batch == batch)


class CountInIntegers(Count):
    """Counts the rows of each key, with a smaller type of state."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "count int")


class CountTwice(Count):
    """Counts each row twice, and widens the state."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in [*rows]:
            yield from super().handleInputRows(key, iter([frame, frame]), timerValues)


class Counts(Place):
    """A job that counts words in managed state; batch N reads text N."""

    def to_the_end(self, processor: type[Count] = CountInIntegers) -> None:
        def transform(frame: DataFrame, _: BatchContext) -> DataFrame:
            made = processor()
            return milepost.spark.stateful(job, frame, key="word", processor=made, output_type=COUNTED, partitions=2)

        texts = self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.directory / "texts"))
        with self.lead() as job:
            writer = texts.selectExpr(WORDS).writeStream.option("checkpointLocation", job.checkpointLocation)
            writer = writer.foreachBatch(job.files(self.output, transform=transform))
            finish(job, writer.trigger(availableNow=True).start())

    def add_texts(self, files: int) -> None:
        """Let there be so many texts."""
        (self.directory / "texts").mkdir(exist_ok=True)
        write_texts(self.directory / f"more-{files}", files, 20)
        for file in (self.directory / f"more-{files}").iterdir():
            if not (self.directory / "texts" / file.name).exists():
                file.rename(self.directory / "texts" / file.name)

    def check(self, files: int) -> None:
        """State and output have each word of so many texts once."""
        total, expected = Counter[str](), {}
        for batch, text in enumerate(write_texts(self.directory / f"same-{files}", files, 20)):
            total += text
            expected[batch] = {word: total[word] for word in text}
        found: dict[int, dict[str, int]] = {}
        for row in milepost.spark.read_published(self.spark, self.url, self.name).collect():
            assert row.word not in found.setdefault(row.batch, {})
            found[row.batch][row.word] = row["count"]
        assert found == expected
        with milepost.Client(self.url) as client, closing(TreeFiles(self.url, self.name, None)) as tree:
            entries = milepost.spark.state_reader(client.store(self.name), tree).entries()
            assert {entry.key[0]: entry.value[0] for entry in entries} == total
