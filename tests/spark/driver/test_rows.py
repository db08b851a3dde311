"""What Spark says of the rows that batches have read: once for each batch, and nothing if it does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from milepost.rows import BatchRows
from milepost.spark.driver.rows import QueryRows


def progress(batch: int, rows: int, step: str = "addBatch") -> Any:
    durations = SimpleNamespace(containsKey=lambda name: name == step)
    return SimpleNamespace(batchId=lambda: batch, numInputRows=lambda: rows, durationMs=lambda: durations)


class Query:
    """A query with the progress that it made so far."""

    def __init__(self, *known: Any) -> None:
        self.known = list(known)
        self._jsq = SimpleNamespace(recentProgress=lambda: self.known)


def test_each_batch_comes_once_and_a_look_without_input_is_none() -> None:
    query: Any = Query(progress(3, 5), progress(4, 0), progress(5, 0, "latestOffset"))
    rows = QueryRows(lambda: query)
    assert rows.collect() == [BatchRows("checkpoint", 4, 0), BatchRows("checkpoint", 3, 5)]
    assert rows.collect() == []
    query.known += [progress(5, 8)]
    assert rows.collect() == [BatchRows("checkpoint", 5, 8)]


def test_a_spark_that_does_not_answer_says_nothing() -> None:
    def gone() -> Any:
        raise ConnectionResetError

    assert QueryRows(lambda: None).collect() == QueryRows(gone).collect() == []
