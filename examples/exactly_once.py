"""A PySpark job whose totals count each row once, whichever driver dies when.

Start it twice. One driver leads; kill it with ``kill -9``, and the other goes on with the same batch.
"""

import argparse
import sqlite3
from contextlib import closing

from pyspark.sql import DataFrame, SparkSession

import milepost.spark

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--milepost", default="http://127.0.0.1:7070")
options.add_argument("--job", default="exactly-once")
options.add_argument("--output", default="/tmp/exactly-once.db", help="SQLite file that all drivers write to")
options.add_argument("--rows", type=int, default=100, help="rows a second")
given = options.parse_args()


def publish(frame: DataFrame, context: milepost.spark.BatchContext) -> None:
    """Write a batch. After a crash this may be called again for a batch, whose row is then replaced."""
    count, total = frame.selectExpr("count(value)", "coalesce(sum(value), 0)").collect()[0]
    with closing(sqlite3.connect(given.output, timeout=30)) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS batches (batch INTEGER PRIMARY KEY, rows INTEGER, total INTEGER)")
        db.execute("INSERT OR REPLACE INTO batches VALUES (?, ?, ?)", (context.batchId, count, total))
    print(f"epoch {context.epoch}: batch {context.batchId} has {count} rows", flush=True)


spark = SparkSession.builder.appName(given.job).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
with milepost.spark.lead(spark, given.milepost, given.job) as job:  # standbys wait here
    query = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", given.rows)
        .load()
        .writeStream.option("checkpointLocation", job.checkpointLocation)
        .trigger(processingTime="1 second")
        .foreachBatch(job.exactlyOnce(publish))
        .start()
    )
    job.awaitTermination(query)
