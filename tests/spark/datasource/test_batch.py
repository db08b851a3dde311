"""Batch queries over published output and over the tables about jobs."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from milepost.spark import read_published
from tests.spark.datasource.reading import load
from tests.spark.jobs import Place, finish
from tests.spark.output.test_files import EXPECTED, rows

pytestmark = pytest.mark.spark

SECRET = "a-token-that-nobody-may-see"


def test_published_rows_are_those_of_read_published(published: Place) -> None:
    frame = load(published, token=SECRET)
    assert frame.schema == read_published(published.spark, published.url, published.name).schema
    assert rows(frame) == dict(enumerate(EXPECTED(4)))
    assert rows(load(published, batches="1,3-")) == {batch: EXPECTED(4)[batch] for batch in (1, 3)}
    plan = str(frame._jdf.queryExecution().toString())
    assert "milepost" in plan
    assert SECRET not in plan


def test_the_tables_of_a_job(published: Place) -> None:
    batches = load(published, table="batches").select("batch", "epoch", "files").collect()
    assert [tuple(row) for row in batches] == [(batch, 1, 1) for batch in range(4)]
    history = load(published, table="history").orderBy("revision").select("kind", "batch", "application").collect()
    application = published.spark.sparkContext.applicationId
    assert [tuple(row) for row in history] == [
        ("epoch-granted", None, application),
        *(("batch-committed", batch, None) for batch in range(4)),
        ("epoch-ended", None, application),
    ]
    assert "_milepost/record.json" in [row.path for row in load(published, table="files").collect()]
    jobs = load(published, table="jobs", store=None).where(f"job = '{published.name}'").collect()
    assert [(row.state, row.epoch, row.batch) for row in jobs] == [("resigned", 1, 3)]
    sql = published.spark.sql
    sql(f"CREATE TEMPORARY VIEW delays USING milepost OPTIONS (url '{published.url}', store '{published.name}')")
    assert [row.batch for row in sql("SELECT DISTINCT batch FROM delays ORDER BY batch").collect()] == [0, 1, 2, 3]
    sql("DROP VIEW delays")


OF_EACH_TYPE = [
    "n",
    "cast(n as tinyint) byte",
    "cast(12345678901234567890.12 as decimal(30,2)) big",
    "cast('ab' as binary) bytes",
    "date'1899-12-31' date",
    "timestamp'1850-01-01 00:00:00.123456' instant",
    "timestamp_ntz'2026-03-29 02:30:00.123456' local",
    "interval '1 02:03:04' day to second span",
    "array(1, null) list",
    "map(date'2026-01-01', timestamp'2026-01-01 00:00:00', date'2026-01-02', null) map",
    "array(cast(null as struct<t: timestamp>), named_struct('t', timestamp'2026-01-01 00:00:00')) structs",
]


@pytest.mark.later
def test_each_type_is_read_as_sparks_own_reader_reads_it_and_wider_types_and_other_columns_later(place: Place) -> None:
    later = ["named_struct('p', 1L, 'q', 'z') st", "cast(n as bigint) N", "array(named_struct('p', 1, 'w', 2)) nested"]
    for columns in (OF_EACH_TYPE, ["n", "named_struct('p', 1) st", "array(named_struct('p', 1)) nested"], later):
        (place.input / f"{len(list(place.input.iterdir()))}.json").write_text('{"n": 1}')
        with place.lead() as job:
            frame = place.spark.readStream.schema("n int").json(str(place.input)).selectExpr(*columns)
            writer = frame.writeStream.option("checkpointLocation", job.checkpointLocation)
            finish(job, writer.foreachBatch(job.files(place.output)).trigger(availableNow=True).start())
        own, theirs = load(place), read_published(place.spark, place.url, place.name)
        assert own.schema == theirs.schema
        assert sorted(own.collect(), key=str) == sorted(theirs.collect(), key=str)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"store": "nobody"}, "no driver has led a job 'nobody'"),
        ({"tabel": "jobs", "token": SECRET}, "has no option tabel: it has table, url"),
        ({"table": "handles"}, "does not have the table 'handles'"),
        ({"table": "jobs"}, "has no option store"),
        ({"batches": "one"}, "must be numbers and ranges such as 3,7-9,20-"),
    ],
)
def test_what_cannot_be_read_is_said_before_anything_runs(place: Place, options: dict[str, str], said: str) -> None:
    with pytest.raises(AnalysisException, match=said) as error:
        load(place, **options)
    assert SECRET not in str(error.value)
