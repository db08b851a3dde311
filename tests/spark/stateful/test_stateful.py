"""Processing batches with managed state, with a real Spark, the real service, and PySpark's own operator beside it."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import milepost
import milepost.spark
from milepost.errors import Fenced, UnsafeQuery
from milepost.spark import Job
from milepost.state.errors import InvalidUse
from milepost.state.processors import GroupingKey
from milepost.state.store import LocalFiles, StateFiles, TreeFiles
from tests.spark.driver.test_takeover import succeed
from tests.spark.jobs import Place, finish
from tests.spark.stateful.processors import COUNTED, Count, CountRows, FailsAt, Sessions
from tests.spark.stateful.texts import WORDS, write_texts
from tests.spark.trials.queries import PROVIDERS, read_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
Transform = Callable[["DataFrame", milepost.spark.BatchContext], "DataFrame"]


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    """The place of the state."""
    return LocalFiles(tmp_path / "state")


def run(place: Place, transform: Callable[[Job], Transform], frame: DataFrame | None = None) -> None:
    """Lead a job over the texts to the end of its input."""
    if frame is None:
        texts = place.spark.readStream.option("maxFilesPerTrigger", 1).text(str(place.directory / "texts"))
        frame = texts.selectExpr(WORDS)
    with place.lead() as job:
        function = job.files(place.output, transform=transform(job))
        writer = frame.writeStream.option("checkpointLocation", job.checkpointLocation)
        finish(job, writer.foreachBatch(function).trigger(availableNow=True).start())


def counting(files: LocalFiles | None, **options: Any) -> Callable[[Job], Transform]:
    """Count words in each batch."""

    def of(job: Job) -> Transform:
        def transform(frame: DataFrame, _context: Any) -> DataFrame:
            chosen: dict[str, Any] = {"processor": Count(), "partitions": 2, **options}
            return milepost.spark.stateful(job, frame, key="word", output_type=COUNTED, files=files, **chosen)

        return transform

    return of


def published(place: Place) -> dict[int, dict[str, int]]:
    """What each batch published of each word, once."""
    found: dict[int, dict[str, int]] = {}
    for row in milepost.spark.read_published(place.spark, place.url, place.name).collect():
        assert row.word not in found.setdefault(row.batch, {})
        found[row.batch][row.word] = row["count"]
    return found


def test_the_words_of_a_real_text_with_eight_three_and_thirteen_partitions(
    place: Place, client: milepost.Client, files: LocalFiles
) -> None:
    texts = write_texts(place.directory / "texts", 4)
    numbers = iter((8, 3, 13, 13))

    def of(job: Job) -> Transform:
        def transform(frame: DataFrame, context: Any) -> DataFrame:
            return counting(files, partitions=next(numbers))(job)(frame, context)

        return transform

    run(place, of)
    so_far: Counter[str] = Counter()
    found = published(place)
    reader = milepost.spark.state_reader(client.store(place.name), files)
    for number, words in enumerate(texts):
        so_far.update(words)
        assert found[number] == {word: so_far[word] for word in words}
        entries = reader.entries(version=number + 1)
        assert {one.key[0]: one.value[0] for one in entries} == so_far
    assert [reader.partitions(version) for version in (1, 2, 3, 4)] == [8, 3, 13, 13]
    (entry,) = reader.get(["license"], "count")
    assert entry.value == (so_far["license"],)
    table = milepost.spark.read_state(place.spark, reader, "count", version=2)
    assert table.where("value.count > 100").count() == sum(n > 100 for n in (texts[0] + texts[1]).values())
    assert table.columns == ["key", "value"]


def test_a_driver_that_ends_between_staging_and_publishing_or_before_the_commit_loses_and_doubles_nothing(
    place: Place, files: LocalFiles
) -> None:
    """Then PySpark's processor fails, and a batch that fails again and again changes nothing either."""
    texts = write_texts(place.directory / "texts", 3, 20)
    ends = iter(["staged", "", "", "", "", ""])

    def of(job: Job) -> Transform:
        def transform(frame: DataFrame, context: Any) -> DataFrame:
            counted = counting(files)(job)(frame, context)
            if next(ends) == "staged":
                raise KeyError("dead")
            return counted

        return transform

    with pytest.raises(StreamingQueryException, match="dead"):
        run(place, of)
    with pytest.raises(StreamingQueryException, match="cannot count"):
        run(place, counting(files, processor=FailsAt("license")))
    run(place, of)
    so_far: Counter[str] = Counter()
    for number, words in enumerate(texts):
        so_far.update(words)
        assert published(place)[number] == {word: so_far[word] for word in words}


def test_two_jobs_in_one_place_and_a_state_in_the_tree_of_its_job(
    place: Place, client: milepost.Client, files: LocalFiles, tmp_path: Path
) -> None:
    """What one job cleans up, and where its stores lie, is nothing to another one of the same names."""
    other = replace(place, name=f"{place.name}-other", directory=tmp_path / "other")
    tree = replace(place, name=f"{place.name}-tree", directory=tmp_path / "tree")
    for one, chosen in ((place, files), (other, files), (tree, None)):
        texts = write_texts(one.directory / "texts", 2, 20)
        run(one, counting(chosen))
    with closing(TreeFiles(place.url, tree.name, None)) as files_of_tree:
        places: list[tuple[Place, StateFiles]] = [(place, files), (other, files), (tree, files_of_tree)]
        for one, where in places:
            assert published(one)[1] == {word: (texts[0] + texts[1])[word] for word in texts[1]}
            reader = milepost.spark.state_reader(client.store(one.name), where)
            assert {entry.key[0]: entry.value[0] for entry in reader.entries()} == texts[0] + texts[1]
    assert len(list((tmp_path / "state").iterdir())) == 2


def test_a_fenced_driver_publishes_no_state(place: Place, client: milepost.Client, files: LocalFiles) -> None:
    texts = write_texts(place.directory / "texts", 2, 20)

    def of(job: Job) -> Transform:
        def transform(frame: DataFrame, context: Any) -> DataFrame:
            counted = counting(files)(job)(frame, context)
            if context.batchId == 1:
                succeed(client, place.name).resign()
            return counted

        return transform

    with pytest.raises(Fenced):
        run(place, of)
    reader = milepost.spark.state_reader(client.store(place.name), files)
    assert reader.version == 1
    run(place, counting(files))
    assert published(place)[1] == {word: (texts[0] + texts[1])[word] for word in texts[1]}


@contextmanager
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """What PySpark's own operator needs."""
    for key, value in PROVIDERS["rocksdb"].items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in PROVIDERS["rocksdb"]:
            spark.conf.unset(key)


def test_the_same_processor_gives_the_same_under_transform_with_state_in_pandas(
    place: Place, client: milepost.Client, files: LocalFiles, tmp_path: Path
) -> None:
    place.add_input(5)
    lines = read_input(place.spark, str(place.input)).selectExpr("*", "timestamp_seconds(t) AS at")
    timed = lines.withWatermark("at", "4 seconds")
    theirs: dict[int, list[Any]] = {}
    ours: dict[int, list[Any]] = {}
    with rocksdb(place.spark):
        query = (
            timed.groupBy("k")
            .transformWithStateInPandas(Sessions(), Sessions.OUTPUT, "Append", "EventTime")
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(lambda frame, batch: theirs.update({batch: sorted(map(tuple, frame.collect()))}))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    def of(job: Job) -> Transform:
        def transform(frame: DataFrame, context: Any) -> DataFrame:
            told = milepost.spark.stateful(
                job,
                frame,
                key="k",
                processor=Sessions(),
                output_type=Sessions.OUTPUT,
                time_mode="EventTime",
                files=files,
                partitions=2,
            )
            ours[context.batchId] = sorted(map(tuple, told.collect()))
            return told

        return transform

    run(place, of, timed)
    assert list(ours) == list(range(5))
    assert {batch: rows for batch, rows in theirs.items() if batch < 5} == ours
    assert any("over at" in row[3] for rows in ours.values() for row in rows)
    assert any(row[3] == "k,v,t,at" for rows in ours.values() for row in rows)
    reader = milepost.spark.state_reader(client.store(place.name), files)
    for variable, kind in (("sum", "value"), ("rows", "list"), ("times", "map")):
        there = place.spark.read.format("statestore").option("stateVarName", variable).option("batchId", 4)
        if kind != "value":
            there = there.option("flattenCollectionTypes", "true")
        table = milepost.spark.read_state(place.spark, reader, variable)
        columns = {
            "value": ["key", "value"],
            "list": ["key", "list_element"],
            "map": ["key", "user_map_key", "user_map_value"],
        }
        expected = there.load(str(tmp_path / "checkpoint")).select(columns[kind]).collect()
        assert sorted(map(str, map(tuple, table.collect()))) == sorted(map(str, map(tuple, expected))), variable


def test_rows_nulls_and_an_initial_state(place: Place, client: milepost.Client, files: LocalFiles) -> None:
    place.add_input(2)
    frame = read_input(place.spark, str(place.input)).selectExpr("nullif(k, 3) AS k", "v", "nullif(t, t) AS t")
    initial = place.spark.createDataFrame([(1, 100), (999, 7)], "k long, before long")
    told: list[Any] = []

    def of(job: Job) -> Transform:
        def transform(frame: DataFrame, _context: Any) -> DataFrame:
            counted = milepost.spark.stateful(
                job,
                frame,
                key=["k"],
                processor=CountRows(),
                output_type=CountRows.OUTPUT,
                files=files,
                initial_state=initial,
                in_pandas=False,
                partitions=2,
            )
            told.extend(counted.collect())
            return counted

        return transform

    run(place, of, frame)
    counts = {
        one.key[0]: one.value[0] for one in milepost.spark.state_reader(client.store(place.name), files).entries()
    }
    assert counts[999] == 7
    rows = sum(len(row.seen.split("; ")) for row in told)
    assert sum(counts.values()) == rows + 107
    assert any(row.k is None for row in told)
    assert all("'t': None" in row.seen for row in told)


def test_the_same_key_in_spark_and_in_python(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT * FROM VALUES ('ä', 5L, X'00FF', true, DATE'1969-12-30', TIMESTAMP'2024-01-01 00:00:01Z', 1Y), "
        "('', -5L, X'', false, DATE'2024-02-29', TIMESTAMP'1900-01-01 00:00:01.5Z', -1Y), "
        "(null, null, null, null, null, null, null) AS t(a, b, c, d, e, f, g)"
    )
    key = GroupingKey([(field.name, field.dataType.jsonValue()) for field in frame.schema.fields])
    for row in frame.selectExpr("*", f"{key.sql()} AS encoded", f"crc32({key.sql()}) AS crc").collect():
        *values, encoded, crc = row
        values = [bytes(value) if isinstance(value, bytearray) else value for value in values]
        assert key.encode(values) == bytes(encoded)
        assert zlib.crc32(bytes(encoded)) == crc


def test_what_is_refused(place: Place, files: LocalFiles) -> None:
    write_texts(place.directory / "texts", 2, 5)
    batch = place.spark.sql("SELECT 'a' AS word, 1.5D AS number")
    told: list[str] = []

    def of(job: Job) -> Transform:
        def refused(frame: DataFrame, error: type[Exception], match: str, **options: Any) -> None:
            chosen: dict[str, Any] = {
                **{"key": "word", "processor": Count(), "output_type": COUNTED, "files": files, "partitions": 1},
                **options,
            }
            with pytest.raises(error, match=match):
                milepost.spark.stateful(job, frame, **chosen)
            told.append(match)

        refused(batch, UnsafeQuery, "within a batch only")

        def transform(frame: DataFrame, context: Any) -> DataFrame:
            refused(batch, UnsafeQuery, "no column 'no'", key="no")
            refused(batch, InvalidUse, "no key can have that", key="number")
            refused(batch, UnsafeQuery, "1 to 128 partitions", partitions=129)
            refused(batch, UnsafeQuery, "1 to 128 partitions, not 0", partitions=0)
            refused(batch, InvalidUse, "the time mode is", time_mode="Wall")
            refused(batch, InvalidUse, "no state can be called", name="a/b")
            refused(batch.selectExpr("word", "1 AS __milepost_key"), UnsafeQuery, "rename it")
            if context.batchId == 1:
                refused(batch.selectExpr("1 AS word"), UnsafeQuery, "cannot have keys of")
                refused(batch, UnsafeQuery, "128 key groups for ever", key_groups=64)
            counted = counting(files, partitions=1)(job)(frame, context)
            refused(batch, UnsafeQuery, "processed twice")
            return counted

        return transform

    run(place, of)
    assert len(told) == 1 + 2 * 8 + 2
