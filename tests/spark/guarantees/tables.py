"""A driver that writes to Delta Lake and to Iceberg, as a stream and at once, and tells what becomes of it.

It is started by ``python -m tests.spark.guarantees.tables DIRECTORY JAVA_OPTIONS JARS``, in a process of its own, since
Spark takes the extensions of a session when it starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tests.spark.under_test.program import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(directory: str, java_options: str, jars: str) -> int:
    """Print as JSON how each attempt ended."""
    spark = spark_session(
        java_options,
        {
            "spark.jars": jars,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": f"{directory}/lake",
        },
    )
    attempts: dict[str, Callable[[], object]] = {
        "delta by txnAppId": lambda: twice(spark, f"{directory}/at-once"),
        "delta as a stream": lambda: stream(spark, "delta", directory),
        "iceberg, a table": lambda: spark.sql("CREATE TABLE lake.db.numbers (value BIGINT) USING iceberg"),
        "iceberg as a stream": lambda: stream(spark, "iceberg", directory),
    }
    print(json.dumps({name: ended(attempt) for name, attempt in attempts.items()}))
    spark.stop()
    return 0


def twice(spark: SparkSession, path: str) -> None:
    """Write the same batch twice, as a driver does that runs it again."""
    for _ in range(2):
        writer = spark.range(3).write.format("delta").mode("append")
        writer.option("txnAppId", "numbers").option("txnVersion", 1).save(path)


def stream(spark: SparkSession, sink: str, directory: str) -> None:
    """Write two batches by a query."""
    files = Path(directory, "in")
    files.mkdir(exist_ok=True)
    for number in range(2):
        (files / f"{number}.json").write_text('{"value": 1}\n')
    rows = spark.readStream.schema("value LONG").option("maxFilesPerTrigger", 1).json(str(files))
    writer = rows.writeStream.format(sink).option("checkpointLocation", f"{directory}/{sink}-checkpoint")
    writer.trigger(availableNow=True).start(f"{directory}/{sink}").awaitTermination()


def ended(attempt: Callable[[], object]) -> str:
    """In what words it ended."""
    try:
        attempt()
    except (Py4JJavaError, PySparkException) as error:
        return str(error)[:2000]
    return "well"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
