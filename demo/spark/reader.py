"""A reader of what was published, in a process of its own with its own Spark: compares it with the input.

Milepost's output is read as any reader reads it: what the job record says is published. Plain Spark's, where there is
one to compare with, is what lies in its directory.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import milepost.spark
from demo.report.comparison import compare
from demo.spark.probe import wait_for_file
from demo.spark.sessions import quick_session
from demo.spark.settings import ReaderSettings


def main(settings: ReaderSettings) -> None:
    """Read, compare, write the result."""
    spark = quick_session("reader", settings.java_options)
    wait_for_file(Path(settings.begin))
    columns = ("id", "carrier", "distance", "flights", "miles")
    given = spark.read.parquet(settings.input).select(*columns[:3]).toArrow()
    published = milepost.spark.read_published(spark, settings.services, settings.job).select(*columns).toArrow()
    result = [asdict(compare(given, published))]
    if settings.plain_output is not None:
        plain = spark.read.parquet(settings.plain_output).select(*columns).toArrow()
        result.append(asdict(compare(given, plain)))
    Path(settings.result).write_text(json.dumps(result))


if __name__ == "__main__":
    main(ReaderSettings(**json.loads(sys.argv[1])))
