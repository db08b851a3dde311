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

====  ======================================================================================  =========================
step  what                                                                                    module
====  ======================================================================================  =========================
1     get the epoch, then read the job record                                                 ``takeover``, ``pointer``
2     put the settings of this epoch into the session; from now on the service refuses        ``session_settings``
      every write of an older driver and of its executors
3     read how far the checkpoint has come, and check that it fits the record                 ``tree``, ``recovery``
4     batch N is entered: N is P, the batch that was published last, or P + 1                 ``batch``, ``guard``
5     at the driver's first batch: note in the record that it was begun                       ``batch``
6     if N = P: evaluate the batch for its state only, and publish nothing                    ``batch``
7     else evaluate it once, and call the publishing function                                 ``publishing``
8     output is staged per attempt and named by a manifest                                    ``sink``, ``manifest``
9     compare-and-set P to N with the manifest, under the epoch                               ``pointer``
10    SIGTERM stops the query from a thread                                                   ``sigterm``
====  ======================================================================================  =========================

Spark itself writes the checkpoint to the service, which checks the epoch of each write
(``milepost.core.checkpoint_location``). So ``offsets/N`` is stored before the function of batch N is called, and a
take-over copies no files.

During all steps, ``watch`` checks that Spark's JVM answers and that each batch ends; if not, the driver resigns the
epoch.

The errors of this package derive from `milepost.errors.SparkDriverError`. A replay cannot protect against a query that
is not deterministic (``rand()``, a clock in a UDF), against input files that are rewritten, or against side effects
other than the staged output (`BatchContext`): the user must avoid these.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    import pyspark  # noqa: F401  (another missing module names itself in its error)
except ModuleNotFoundError as missing:
    if missing.name != "pyspark":
        raise
    raise ModuleNotFoundError(
        "milepost.spark needs pyspark: pip install 'milepost[spark]'", name=missing.name
    ) from missing

from milepost.spark.job import Job
from milepost.spark.lead import lead
from milepost.spark.output.manifest import PublishedBatch
from milepost.spark.output.reader import published_batches, read_published
from milepost.spark.publishing import BatchContext
from milepost.spark.recovery import JobRecovery

if TYPE_CHECKING:
    from milepost.spark.managed.stateful import stateful
    from milepost.spark.managed.table import read_state, state_reader

_WITH_STATE = {
    "stateful": "milepost.spark.managed.stateful",
    "read_state": "milepost.spark.managed.table",
    "state_reader": "milepost.spark.managed.table",
}
_OF_STATE = ("msgpack", "sortedcontainers", "rocksdict")
"""The packages that ``milepost[state]`` installs and ``milepost[spark]`` does not."""


def __getattr__(name: str) -> Any:
    """Import ``stateful``, ``read_state`` and ``state_reader`` on first use: they need the packages of
    ``milepost[state]``, which most jobs do not install.
    """
    if name not in _WITH_STATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_WITH_STATE[name]), name)
    except ModuleNotFoundError as missing:
        if missing.name not in _OF_STATE:
            raise
        raise ModuleNotFoundError(
            f"milepost.spark.{name} needs {missing.name}: pip install 'milepost[spark,state]'", name=missing.name
        ) from missing


__all__ = [
    "lead",
    "stateful",
    "state_reader",
    "read_state",
    "Job",
    "BatchContext",
    "JobRecovery",
    "read_published",
    "published_batches",
    "PublishedBatch",
]
