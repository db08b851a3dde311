"""Warms up the JVM of a standby driver: it plans queries and reads files as the job's query will after the
take-over.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from milepost.client import Client
from milepost.core.checkpoint_location import checkpoint_location
from milepost.errors import MilepostError
from milepost.spark.file_manager import file_manager
from milepost.spark.recovery import newest
from milepost.spark.tree import CheckpointTree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_NO_EPOCH = 0
_MOST_BYTES = 64 * 1024 * 1024
_LEAST_BYTES = 1024 * 1024
_FILES = 1000
_OUTAGE_SECONDS = 1.0
_IMPATIENT = {
    "dfs.webhdfs.socket.connect-timeout": "2s",
    "dfs.webhdfs.socket.read-timeout": "5s",
    "dfs.http.client.failover.max.attempts": "3",
    "dfs.http.client.retry.max.attempts": "1",
}


_CATALOG, _SPARKS = "spark.sql.defaultCatalog", "spark_catalog"
_PLANNED = (
    "SELECT id % 2 AS half, count(*) AS number FROM range(10) GROUP BY half",
    # Adaptive execution postpones the code of a query with an exchange; this query has none.
    "SELECT id + 1 AS next FROM range(10) WHERE id > 1",
)


def warm_up(spark: SparkSession, store: str, client: Client) -> None:
    """Start a thread that plans queries which never run, reads a little of the job's checkpoint, and some state if it
    is large.

    A JVM that never planned takes a second longer to start a query, and one that never read takes another second for
    300 MB of state, because it must load and compile classes. Doing this early saves the time after the grant. The
    take-over does not wait for the thread, and errors of the thread are only logged. If the service uses tokens, a
    driver without the epoch may not read files; the JVM has then at least loaded the classes for reading.
    """
    threading.Thread(
        target=_prepare, args=(spark, client.addresses, store), name="milepost-warm-up", daemon=True
    ).start()


def _prepare(spark: SparkSession, urls: Sequence[str], store: str) -> None:
    file_manager(spark)  # loads its classes
    _plan(spark)
    _read(spark, urls, store)


def _plan(spark: SparkSession) -> None:
    """Have Spark plan queries and compile their code, without running a job, calling a listener or changing the
    session.

    This uses the program's session, because a new one would construct the configured listeners a second time. If the
    default catalog is not Spark's own, this returns at once: planning would construct the catalog before the program
    has completed its settings.
    """
    try:
        if spark.conf.get(_CATALOG, _SPARKS) != _SPARKS:
            return
        session: Any = spark._jsparkSession
        classes = session.getClass().getClassLoader()
        debug = classes.loadClass("org.apache.spark.sql.execution.debug.package$").getField("MODULE$").get(None)
        for text in _PLANNED:
            debug.codegenString(session.sql(text).queryExecution().executedPlan())
    except (Py4JError, PySparkException, OSError) as error:
        _log.debug("no queries can be planned while standing by, the take-over is a little slower: %s", error)
    else:
        _log.debug("planned queries while standing by; they never run")


def _read(spark: SparkSession, urls: Sequence[str], store: str) -> None:
    location = checkpoint_location(urls, store, _NO_EPOCH)
    location = replace(location, settings={**location.settings, **_IMPATIENT})
    try:
        tree = CheckpointTree(spark, location, _OUTAGE_SECONDS)
        tree.read(f"offsets/{newest(tree, 'offsets')}")
        read = tree.skim("state", _LEAST_BYTES, _MOST_BYTES, _FILES)
    except (MilepostError, Py4JError, OSError) as error:
        _log.debug("the checkpoint of %s cannot be read while standing by: its take-over is a little slower", error)
    else:
        _log.debug("read %d bytes of the state of %s while standing by", read, store)
