"""What reading takes from an output of many batches, against one of a few.

    python -m benchmarks.published_output [--batches 20000] [--few 20] [--rounds 5]

Two jobs of one embedded server, with a Parquet file of three rows for each batch, on a local disk. Each call is made
for one job and then for the other. The table has the medians of both and their ratios, and the first call by itself,
since Spark is cold in it. ``the pages by Hadoop`` reads them as those of any other file system are read.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import milepost
from milepost.job_record import JOB, KIND, JobRecord
from milepost.spark import published_batches, read_published
from milepost.spark.output import manifest
from milepost.spark.output.file_systems import HadoopFiles
from milepost.spark.output.manifest import DIRECTORY, Page, PageLink, PublishedBatch, link_json, pages
from testbed.server import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEWEST = 10


def publish(spark: SparkSession, url: str, name: str, output: Path, batches: int) -> PageLink:
    """Make the output of a job, and its record; return the link to the newest page."""
    frame = spark.range(3)
    frame.coalesce(1).write.parquet(str(output / "_rows"))
    (rows,) = (output / "_rows").glob("part-*")
    (output / DIRECTORY).mkdir()
    newest: PageLink | None = None
    for first in range(0, batches, manifest.PAGE_BATCHES):
        listed = []
        for batch in range(first, min(first + manifest.PAGE_BATCHES, batches)):
            directory = f"batch={batch}/e1-{batch:032x}"
            (output / directory).mkdir(parents=True)
            os.link(rows, output / directory / rows.name)
            files = ((rows.name, rows.stat().st_size),)
            listed.append(PublishedBatch(batch, directory, files, frame.schema.json()))
        page = Page(tuple(listed), frame.schema.json(), newest)
        content, file = page.encode(), f"{DIRECTORY}/batch-{listed[-1].batch}.json"
        (output / file).write_bytes(content)
        newest = page.link(file, content)
    assert newest is not None
    record = JobRecord("f3" * 16, 1, batches - 1, {"kind": KIND, "output": f"file:{output}", "page": link_json(newest)})
    with milepost.Client(url) as client, client.session() as session:
        store = session.store(name)
        store.campaign()
        store.add_and_lock(JOB, record.encode(), record.labels)
    return newest


def calls(spark: SparkSession, url: str, parent: Path, jobs: Mapping[str, PageLink]) -> dict[str, Callable[[str], int]]:
    """What is measured, each with what it finds."""
    hadoop = HadoopFiles(spark)
    newest = {name: range(link.last + 1 - _NEWEST, link.last + 1) for name, link in jobs.items()}

    def by_hadoop(name: str) -> int:
        found = pages(jobs[name], lambda file: hadoop.read(f"file:{parent / name}/{file}"))
        return sum(len(page.batches) for page in found)

    return {
        "newest ten, by a filter": lambda name: (
            read_published(spark, url, name).filter(f"batch >= {newest[name][0]}").count()
        ),
        "newest ten, by batches=": lambda name: read_published(spark, url, name, batches=newest[name]).count(),
        "published_batches": lambda name: len(published_batches(spark, url, name)),
        "the pages by Hadoop": by_hadoop,
    }


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--few", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as directory, ServerProcess(Path(directory)) as server:
        server.start()
        parent = Path(directory)
        sizes = {"few": asked.few, "many": asked.batches}
        jobs = {name: publish(spark, server.url, name, parent / name, size) for name, size in sizes.items()}
        print(f"{asked.batches} batches beside {asked.few}, medians of {asked.rounds} rounds")
        print(f"{'':<25} {'first':>8} {'few':>8} {'many':>8} {'ratio':>7}")
        for what, call in calls(spark, server.url, parent, jobs).items():
            took: dict[str, list[float]] = {"many": [], "few": []}
            for _ in range(asked.rounds + 1):
                for name, each in took.items():
                    began = time.monotonic()
                    call(name)
                    each.append(time.monotonic() - began)
            first, (many, few) = took["many"][0], (statistics.median(each[1:]) for each in took.values())
            print(f"{what:<25} {first:>6.2f} s {few:>6.2f} s {many:>6.2f} s {many / few:>7.1f}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
