"""Exactly-once publication from Spark Structured Streaming, with fail-over between drivers.

::

    import milepost.spark

    with milepost.spark.lead(spark, "http://127.0.0.1:7070", "flights") as job:
        query = (
            frame.writeStream.outputMode("update")
            .option("checkpointLocation", job.checkpointLocation)
            .foreachBatch(job.files("/data/flights"))
            .start()
        )
        job.awaitTermination(query)

    milepost.spark.read_published(spark, "http://127.0.0.1:7070", "flights").show()

How a driver goes on after another, and where each step stands:

====  ======================================================================================  ================
step  what                                                                                    module
====  ======================================================================================  ================
1     take the epoch, then read the job record                                                ``lead``, ``pointer``
2     build the checkpoint directory of this epoch, whole or not at all                       ``restore``
3     the query runs in it                                                                    ``guard``
4     batch N is entered: N is the published batch P or P + 1                                 ``batch``
5     read the checkpoint at entry, before anything of N is evaluated, and register it        ``snapshotter``
6     N = P: evaluate for the state alone, publish nothing                                    ``batch``
7     else evaluate once, whole, beside step 5; after both call the publishing function       ``batch``
8     output is staged per attempt and named by a manifest                                    ``sink``, ``manifest``
9     compare-and-set P to N with the manifest, under the epoch                               ``pointer``, ``store``
10    after the end: register the tail                                                        ``tail``
11    SIGTERM stops the query from a thread                                                   ``sigterm``
====  ======================================================================================  ================

Beside all of them ``watch`` looks whether Spark's JVM answers and the batch ends, and gives the lead up otherwise.

Errors that this package adds are under `milepost.errors.SparkDriverError`. What a replay cannot protect against is on
the user: a query that is not deterministic (``rand()``, a clock in a UDF), input files that are rewritten, and side
effects outside of the staged output (`BatchContext`).
"""

try:
    import pyspark  # noqa: F401  (what else is missing says so by itself)
except ModuleNotFoundError as missing:
    if missing.name != "pyspark":
        raise
    raise ModuleNotFoundError(
        "milepost.spark needs pyspark: pip install 'milepost[spark]'", name=missing.name
    ) from missing

from milepost.spark.context import BatchContext
from milepost.spark.job import Job
from milepost.spark.lead import lead
from milepost.spark.manifest import PublishedBatch
from milepost.spark.reader import published_batches, read_published
from milepost.spark.recovery import JobRecovery

__all__ = ["lead", "Job", "BatchContext", "JobRecovery", "read_published", "published_batches", "PublishedBatch"]
