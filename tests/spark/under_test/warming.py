"""Loads what a driver of these tests loads, for the archive of classes: a stateful query that writes Parquet files."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkContext

from tests.spark.trials.queries import KINDS, read_input, write_input
from tests.spark.under_test.program import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DEADLINE_SECONDS = 200.0


def main(java_options: str) -> None:
    """Run it, and wait until the JVM has ended and with that written its archive."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_input(directory / "in", 2)
        spark = spark_session(java_options, {})

        def publish(frame: DataFrame, batch: int) -> None:
            kept = frame.persist()
            kept.write.format("noop").mode("overwrite").save()
            kept.write.parquet(f"{directory}/out/{batch}")
            kept.unpersist()

        frame = KINDS["aggregation"].build(read_input(spark, f"{directory}/in"))
        writer = frame.writeStream.outputMode("update").option("checkpointLocation", f"{directory}/checkpoint")
        writer.foreachBatch(publish).trigger(availableNow=True).start().awaitTermination()
        spark.stop()
        end_jvm(_DEADLINE_SECONDS)


def end_jvm(deadline: float) -> None:
    """End the JVM behind PySpark, and wait for its end."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(deadline)
    SparkContext._gateway = None
    SparkContext._jvm = None


if __name__ == "__main__":
    main(sys.argv[1])
