"""What a job has published by files, as a reader without Spark finds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import milepost
from milepost.job_record import JOB, decode
from milepost.spark.output.manifest import PublishedBatch, pages
from milepost.spark.output.sink import published_page
from tests.spark.trials.queries import Row, contents


def published_rows(url: str, store: str, output: Path) -> dict[int, list[Row]]:
    """The rows of each published batch; none is named twice, and each file is as long as was said."""
    with milepost.Client(url) as client:
        record = decode(client.store(store).read(JOB))
    link = published_page(record.manifest, record.published)
    named = [batch for page in pages(link, lambda file: (output / file).read_bytes()) for batch in page.batches]
    assert len({batch.batch for batch in named}) == len(named), "a batch is named twice"
    return {batch.batch: contents(_paths(output, batch)) for batch in named}


def _paths(output: Path, batch: PublishedBatch) -> Iterator[Path]:
    for name, size in batch.files:
        path = output / batch.directory / name
        assert path.stat().st_size == size
        yield path
