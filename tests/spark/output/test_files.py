"""Parquet files published by manifest, and read by it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import milepost
from milepost.errors import NotExist, RecordUnreadable, UnsafeQuery
from milepost.job_record import JOB, decode
from milepost.spark import published_batches, read_published
from milepost.spark.output import manifest as manifest_module
from milepost.spark.output import reader
from milepost.spark.output import sink as sink_module
from milepost.spark.output.file_systems import LocalFiles
from tests.spark.jobs import Place, finish
from tests.spark.trials.queries import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

EXPECTED = KINDS["stateless"].expected


def run(place: Place, kind: str = "stateless", output: str | None = None) -> None:
    with place.lead() as job:
        finish(job, place.start(job, job.files(output or place.output), kind))


def rows(frame: DataFrame) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for row in frame.collect():
        found.setdefault(row.batch, []).append((row.k, row.w))
    return {batch: sorted(of) for batch, of in found.items()}


@pytest.mark.promise
def test_published_rows_are_read_with_their_batch(place: Place) -> None:
    """Also from a directory whose name Spark's readers take for a pattern, or for an escaped URI, or that is none."""
    run(place, output=f"{place.output} {{1}}[2]*?ö\u3000\u0085%20")
    frame = read_published(place.spark, place.url, place.name)
    assert rows(frame) == dict(enumerate(EXPECTED(2)))
    from pyspark.sql.functions import input_file_name

    looked_for = read_published(place.spark, place.url, place.name, batches=[0, 1])
    named = [{row[0] for row in each.select(input_file_name()).collect()} for each in (frame, looked_for)]
    assert named[0] == named[1]
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("k", "bigint"),
        ("w", "bigint"),
        ("batch", "bigint"),
    ]


@pytest.mark.parametrize("place", ["", "file:", "hdfs://name", "webhdfs://[::1]:9870"])
def test_only_names_are_read_literally(place: str) -> None:
    assert reader._literal(f"{place}/a{{b}}/c[1]?*\\") == rf"{place}/a\{{b\}}/c\[1\]\?\*\\"


def test_batches_are_chosen_before_files_are_touched(place: Place) -> None:
    place.add_input(4)
    run(place)
    chosen = read_published(place.spark, place.url, place.name, batches=range(1, 3))
    assert rows(chosen) == dict(list(enumerate(EXPECTED(4)))[1:3])
    assert {Path(file).parent.parent.name for file in chosen.inputFiles()} == {"batch=1", "batch=2"}
    assert published_batches(place.spark, place.url, place.name, batches=[]) == []
    assert read_published(place.spark, place.url, place.name, batches=[77]).columns == ["k", "w", "batch"]
    assert [batch.batch for batch in published_batches(place.spark, place.url, place.name, batches={0, 3})] == [0, 3]


def test_nothing_published_is_an_empty_frame(place: Place) -> None:
    with place.lead():
        pass
    assert read_published(place.spark, place.url, place.name).columns == ["batch"]
    given = read_published(place.spark, place.url, place.name, schema=place.spark.range(0).schema)
    assert given.columns == ["id", "batch"]
    assert given.count() == 0
    assert published_batches(place.spark, place.url, place.name) == []


def test_a_job_that_there_never_was(place: Place) -> None:
    with pytest.raises(NotExist):
        read_published(place.spark, place.url, "nobody")


def test_files_that_no_manifest_names_are_not_read(place: Place) -> None:
    run(place)
    (published,) = published_batches(place.spark, place.url, place.name, batches=[1])
    stray = place.spark.createDataFrame([(1, 2)], "k long, w long").coalesce(1)
    stray.write.parquet(f"{place.output}/batch=1/e9-0123abcd")
    stray.write.mode("append").parquet(f"{place.output}/{published.directory}")
    assert rows(read_published(place.spark, place.url, place.name)) == dict(enumerate(EXPECTED(2)))


def test_batches_without_rows_are_published_as_well(place: Place) -> None:
    run(place, "windows")
    assert [batch.batch for batch in published_batches(place.spark, place.url, place.name)] == [0, 1, 2]


def test_pages_go_on_across_drivers_and_old_heads_are_cleared(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "PAGE_BATCHES", 3)
    monkeypatch.setattr(sink_module, "KEPT_HEADS", 1)
    for count in (2, 5, 8):
        place.add_input(count)
        run(place)
    assert rows(read_published(place.spark, place.url, place.name)) == dict(enumerate(EXPECTED(8)))
    assert len(list((Path(place.output) / "_milepost").glob("batch-*.json"))) < 8


def test_attempts_of_dead_drivers_are_cleared_and_all_others_left_alone(place: Place) -> None:
    with place.lead():
        pass
    with milepost.Client(place.url) as client:
        own = decode(client.store(place.name).read(JOB)).job
    older, newer, other = f"e1-{own[:12]}ab", f"e9-{own[:12]}ab", "e1-0123456789abcdef"
    for attempt in (older, newer, other):
        directory = Path(place.output) / "batch=0" / attempt
        directory.mkdir(parents=True)
        (directory / "part-0.parquet").touch()
    run(place)
    left = {path.name for path in (Path(place.output) / "batch=0").iterdir()}
    assert older not in left
    assert {newer, other} < left
    assert rows(read_published(place.spark, place.url, place.name)) == dict(enumerate(EXPECTED(2)))


def test_pages_that_nobody_leads_to_are_cleared_by_the_next_driver(place: Place) -> None:
    """Those its predecessor kept for readers, and those of batches that were never published."""
    run(place)
    directory = Path(place.output) / "_milepost"
    with milepost.Client(place.url) as client:
        job = decode(client.store(place.name).read(JOB)).job
    dead, newer, other = f"batch-2-e1-{job[:12]}ab", f"batch-2-e9-{job[:12]}ab", "batch-2-e1-0123456789abcdef"
    for page in (dead, newer, other):
        (directory / f"{page}.json").touch()
    place.add_input(3)
    run(place)
    left = sorted(page.name.split(f"-{job[:12]}")[0] for page in directory.glob("batch-*.json"))
    assert left == ["batch-1-e1", f"{other}.json", "batch-2-e2", "batch-2-e9"]
    assert rows(read_published(place.spark, place.url, place.name)) == dict(enumerate(EXPECTED(3)))


def test_what_cannot_be_cleared_away_fails_no_batch(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file system that only refuses to delete cannot be had of a user who may do all."""

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(sink_module, "KEPT_HEADS", 0)
    run(place)
    for broken in ("delete", "names"):
        with monkeypatch.context() as failing:
            failing.setattr(LocalFiles, broken, refuse)
            place.add_input(4 if broken == "delete" else 6)
            run(place)
    assert "stays for now: [Errno 13] Permission denied" in caplog.text
    assert rows(read_published(place.spark, place.url, place.name)) == dict(enumerate(EXPECTED(6)))


def test_a_job_stays_with_its_output(place: Place) -> None:
    run(place)
    place.add_input(3)
    with place.lead() as job, pytest.raises(UnsafeQuery, match="cannot go on"):
        finish(job, place.start(job, job.files(str(place.directory / "elsewhere"))))


def test_a_job_stays_with_files(place: Place) -> None:
    run(place)
    with place.lead() as job, pytest.raises(UnsafeQuery, match=r"publishes by job\.files"):
        job.exactlyOnce(lambda *_: None)


def test_a_job_stays_with_a_function_of_its_own_though_that_returned_nothing(place: Place) -> None:
    place.run(lambda *_: None)
    with place.lead() as job, pytest.raises(UnsafeQuery, match=r"did not publish by job\.files"):
        job.files(place.output)
    with pytest.raises(UnsafeQuery, match=r"did not publish by job\.files"):
        read_published(place.spark, place.url, place.name)


def test_a_column_named_batch_is_refused(place: Place) -> None:
    with place.lead() as job:
        stream = place.spark.readStream.schema("Batch long").json(str(place.input))
        writer = stream.writeStream.option("checkpointLocation", job.checkpointLocation)
        query = writer.foreachBatch(job.files(place.output)).start()
        with pytest.raises(UnsafeQuery, match="rename it"):
            finish(job, query)


def test_a_damaged_page_is_said_to_be_one(place: Place) -> None:
    run(place)
    with milepost.Client(place.url) as client:
        page = client.store(place.name).read("job")
    head = next(path for path in (Path(place.output) / "_milepost").glob("*.json") if path.name.encode() in page)
    for checksum in head.parent.glob(".*.crc"):
        checksum.unlink()
    head.write_bytes(head.read_bytes().replace(b"part-", b"pert-"))
    with pytest.raises(RecordUnreadable, match="digest"):
        read_published(place.spark, place.url, place.name)
    head.unlink()
    with pytest.raises(RecordUnreadable, match="gone"):
        read_published(place.spark, place.url, place.name)
    place.add_input(3)
    with place.lead() as job, pytest.raises(RecordUnreadable, match="gone"):
        finish(job, place.start(job, job.files(place.output)))
