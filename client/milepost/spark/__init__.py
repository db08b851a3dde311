"""Publishes the output of Spark Structured Streaming exactly once, with fail-over between drivers.

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

How one driver continues the work of another, and which module does each step:

====  ======================================================================================  ====================
step  what                                                                                    module
====  ======================================================================================  ====================
1     get the epoch, then read the job record                                                 ``lead``, ``pointer``
2     build the checkpoint directory of this epoch, whole or not at all                       ``restore``
3     the query runs in it                                                                    ``guard``
4     batch N is entered: N is P, the batch that was published last, or P + 1                 ``batch``
5     read the checkpoint at entry, before anything of N is evaluated, and register it        ``snapshotter``
6     if N = P: evaluate the batch for its state only, and publish nothing                    ``batch``
7     else evaluate it once, beside step 5; after both, call the publishing function          ``batch``
8     output is staged per attempt and named by a manifest                                    ``sink``, ``manifest``
9     compare-and-set P to N with the manifest, under the epoch                               ``pointer``, ``store``
10    after the query's end: register the final checkpoint                                    ``final_checkpoint``
11    SIGTERM stops the query from a thread                                                   ``sigterm``
====  ======================================================================================  ====================

All the time, ``watch`` checks that Spark's JVM answers and that the batch ends; otherwise it gives up the epoch.

The errors of this package are below `milepost.errors.SparkDriverError`. A replay cannot protect against a query that is
not deterministic (``rand()``, a clock in a UDF), against input files that are rewritten, or against side effects other
than the staged output (`BatchContext`): avoiding these is up to the user.
"""

try:
    import pyspark  # noqa: F401  (another missing module names itself in its error)
except ModuleNotFoundError as missing:
    if missing.name != "pyspark":
        raise
    raise ModuleNotFoundError(
        "milepost.spark needs pyspark: pip install 'milepost[spark]'", name=missing.name
    ) from missing

from milepost.spark.checkpoints.recovery import JobRecovery
from milepost.spark.context import BatchContext
from milepost.spark.job import Job
from milepost.spark.lead import lead
from milepost.spark.output.manifest import PublishedBatch
from milepost.spark.output.reader import published_batches, read_published

__all__ = ["lead", "Job", "BatchContext", "JobRecovery", "read_published", "published_batches", "PublishedBatch"]
