"""A driver that has warmed up takes over in seconds: its JVM and its Python workers have loaded what they need.

``python -m demo.spark.warming OPTIONS`` does that alone, with these options for the JVM.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from demo.spark.flights import write_example
from demo.spark.sessions import quick_session
from demo.spark.totals import flights_stream, running_totals

_JVM_SECONDS = 120.0


def warm_up(spark: SparkSession) -> None:
    """Run the query over a handful of flights, and throw away what comes out."""
    with tempfile.TemporaryDirectory() as name:
        write_example(Path(name, "input"))

        def write(frame: DataFrame, batch: int) -> None:
            kept = frame.persist()
            kept.write.format("noop").mode("overwrite").save()
            kept.write.parquet(f"{name}/output/{batch}")
            kept.unpersist()

        query = (
            running_totals(flights_stream(spark, f"{name}/input"))
            .writeStream.option("checkpointLocation", f"{name}/checkpoints")
            .foreachBatch(write)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def main(java_options: str) -> None:
    """Warm up, then end the JVM and wait for what it writes when it ends."""
    spark = quick_session("warming", java_options)
    warm_up(spark)
    spark.stop()
    gateway = SparkContext._gateway
    if gateway is None:
        raise RuntimeError("PySpark has no JVM to wait for")
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_JVM_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
