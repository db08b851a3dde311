"""Facts about the running query that PySpark does not show. Only this module reaches into Spark's JVM classes for them.

They are read from Spark's ``StreamExecution``: the directory in which the query really runs, and its sources with their
options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milepost.errors import UnsafeQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"
_PATH = re.compile(r"(?:file:)?/+(?P<rest>[^/].*)\Z", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """One source of a query: the name of its format in Spark, and its options."""

    name: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class RunningQuery:
    """A query that is running. ``checkpoint_root`` is None if it is not on a local file system."""

    id: str
    run_id: str
    checkpoint_root: Path | None
    sources: tuple[Source, ...]


def calling_run(spark: SparkSession) -> tuple[str, str]:
    """Return the query id and the run id of the query whose micro-batch function runs in this thread.

    Raises `UnsafeQuery` if there is none.
    """
    context = spark.sparkContext
    query, run = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_RUN_ID)
    if not query or not run:
        raise UnsafeQuery(
            "this function was not called by a query: pass job.exactlyOnce(...) to foreachBatch itself, "
            "do not call it from other threads, and leave PYSPARK_PIN_THREAD as it is"
        )
    return query, run


def running_query(spark: SparkSession, query_id: str) -> RunningQuery:
    """Find the active query of this id. Raises `UnsafeQuery` if ``spark`` has no such query."""
    execution = _execution(spark, query_id)
    if execution is None:
        raise UnsafeQuery("the query was started from another SparkSession than the one that was passed to lead()")
    return RunningQuery(
        id=query_id,
        run_id=str(execution.runId().toString()),
        checkpoint_root=_local(str(execution.resolvedCheckpointRoot())),
        sources=tuple(_sources(execution.analyzedPlan().collectLeaves())),
    )


def active_in(spark: SparkSession, directory: Path) -> list[StreamingQuery]:
    """Return the active queries of ``spark`` that run in ``directory``."""
    found = []
    for query in spark.streams.active:
        execution = _execution(spark, str(query.id))  # None: it has ended meanwhile
        if execution is not None and is_same(_local(str(execution.resolvedCheckpointRoot())), directory):
            found.append(query)
    return found


def is_same(root: Path | None, directory: Path) -> bool:
    """Return whether a query's checkpoint root is ``directory``."""
    return root is not None and os.path.realpath(root) == os.path.realpath(directory)


def _execution(spark: SparkSession, query_id: str) -> Any:
    wrapper = spark._jsparkSession.streams().get(query_id)
    return None if wrapper is None else wrapper.streamingQuery()


def _sources(leaves: Any) -> list[Source]:
    found = []
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        kind = str(leaf.getClass().getSimpleName())
        if kind == "StreamingRelation":
            found.append(Source(str(leaf.sourceName()), _scala_options(leaf.dataSource().options())))
        elif kind == "StreamingRelationV2":
            found.append(Source(str(leaf.sourceName()), dict(leaf.extraOptions().asCaseSensitiveMap())))
    return found


def _scala_options(options: Any) -> dict[str, str]:
    pairs = options.iterator()
    found: dict[str, str] = {}
    while pairs.hasNext():
        pair = pairs.next()
        found[str(pair._1())] = str(pair._2())
    return found


def _local(path: str) -> Path | None:
    """Return the local path for a path as Hadoop prints it: with its scheme, and without escapes."""
    match = _PATH.match(path)
    return Path("/" + match["rest"]) if match is not None else None
