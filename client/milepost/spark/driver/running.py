"""Reads facts about a running query that PySpark does not offer: the directory of its checkpoint, and its sources with
their options.

They come from Spark's JVM class ``StreamExecution``, which no other module uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost.errors import UnsafeQuery, WrongCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"


@dataclass(frozen=True)
class Source:
    """One source of a query: the name of its format in Spark, and its options."""

    name: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class RunningQuery:
    """A running query; ``checkpoint_root`` is the location of its checkpoint, as Spark reports it."""

    id: str
    run_id: str
    checkpoint_root: str
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
    """Find the active query with this id. Raises `UnsafeQuery` if ``spark`` has no such query."""
    execution = _execution(spark, query_id)
    if execution is None:
        raise UnsafeQuery("the query was started from another SparkSession than the one that was passed to lead()")
    return RunningQuery(
        id=query_id,
        run_id=str(execution.runId().toString()),
        checkpoint_root=_root(execution),
        sources=tuple(_sources(execution.analyzedPlan().collectLeaves())),
    )


def active_below(spark: SparkSession, tree: str) -> list[StreamingQuery]:
    """Return the active queries of ``spark`` whose checkpoint location is ``tree`` or below it."""
    return [query for query in spark.streams.active if f"{checkpoint_root(query)}/".startswith(f"{tree}/")]


def checkpoint_root(query: StreamingQuery) -> str:
    """Return the location of a query's checkpoint, as Spark reports it, also after the query's end."""
    return _root(query._jsq.streamingQuery())


def check_root(root: str, location: str) -> None:
    """Raise `WrongCheckpoint` if ``root``, the location of a query's checkpoint, is not the job's location."""
    if root != location:
        raise WrongCheckpoint(
            f"the query keeps its checkpoint in {root}, not in {location}: "
            'start it with .option("checkpointLocation", job.checkpointLocation)'
        )


def committed_by(query: StreamingQuery) -> int:
    """Return the last batch that a query has committed, as far as its progress reports show; -1 before the first."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _root(execution: Any) -> str:
    return str(execution.resolvedCheckpointRoot())


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
