"""A job whose output changes its schema: what cannot be read with what is published is not published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from milepost.errors import UnsafeQuery
from milepost.spark import published_batches, read_published
from milepost.spark.output import manifest as manifest_module
from tests.spark.jobs import Place, finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def publish(place: Place, files: int, *columns: str) -> None:
    """Publish the batches of so many files of input, in a driver of its own, with these columns."""
    if not (place.directory / f"more-{files}").exists():
        place.add_input(files)
    with place.lead() as job:
        function = job.files(place.output, transform=lambda frame, _: frame.selectExpr(*columns))
        finish(job, place.start(job, function))


def refused(place: Place, files: int, *columns: str, match: str) -> None:
    before = [batch.batch for batch in published_batches(place.spark, place.url, place.name)]
    with pytest.raises(UnsafeQuery, match=match):
        publish(place, files, *columns)
    assert [batch.batch for batch in published_batches(place.spark, place.url, place.name)] == before
    assert not any(f"batch={len(before)}" in str(path) for path in Path(place.output).rglob("part-*"))


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted({tuple(row) for row in frame.collect()}, key=str)


@pytest.mark.spark
def test_a_type_that_reads_older_rows_wrongly_is_refused_before_it_counts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by drivers and pages after the one that published it; what widens, comes and goes is read as ever."""
    monkeypatch.setattr(manifest_module, "PAGE_BATCHES", 1)
    publish(place, 2, "70000 AS v", "1 AS gone")
    refused(place, 3, "CAST(1 AS short) AS v", match="column v was published as integer, .* rightly as short")
    refused(place, 3, "'a' AS V", match="column V was published as integer, .* rightly as string")
    publish(place, 3, "CAST(70001 AS bigint) AS v", "'new' AS new")
    assert rows(read_published(place.spark, place.url, place.name)) == [
        (70000, None, 0),
        (70000, None, 1),
        (70001, "new", 2),
    ]
    refused(place, 4, "CAST(1 AS bigint) AS v", "current_date() AS gone", match="column gone was published as integer")
    publish(place, 4, "CAST(70002 AS bigint) AS v", "2 AS gone")
    frame = read_published(place.spark, place.url, place.name)
    assert rows(frame) == [(70000, 1, 0), (70000, 1, 1), (70001, None, 2), (70002, 2, 3)]
    asked = place.spark.createDataFrame([], "v int").schema
    with pytest.raises(UnsafeQuery, match=r"column v was published as long, .* as integer: read .* \(batch 2 is"):
        read_published(place.spark, place.url, place.name, schema=asked, batches=[0, 2])
    assert rows(read_published(place.spark, place.url, place.name, schema=asked, batches=[0])) == [(70000, 0)]
    schemas = [json.loads(each.schema) for each in published_batches(place.spark, place.url, place.name)]
    assert [[field["name"] for field in schema["fields"]] for schema in schemas] == [
        ["v", "gone"],
        ["v", "gone"],
        ["v", "new"],
        ["v", "gone"],
    ]
