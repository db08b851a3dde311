"""Queries whose state Spark keeps in other shapes: stream-stream join, applyInPandasWithState, transformWithState.

Functions and classes that Spark's Python workers run are made inside of functions, so that they travel by value.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.spark.trials.queries import KINDS, Batches, Kind, Line, Row, aggregation_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import Row as SparkRow
    from pyspark.sql.streaming.state import GroupState
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

_DELAY = 10
_PATIENCE = 12
_KEPT = 3


def _join(frame: DataFrame) -> DataFrame:
    """Each key's even values with its odd ones, whichever came first."""
    even = frame.where("v % 2 = 0").selectExpr("k", "v AS even")
    odd = frame.where("v % 2 = 1").selectExpr("k AS other", "v AS odd")
    return even.join(odd, even.k == odd.other).selectExpr("k", "even * 1000 + odd AS w")


def _is_even(line: Line) -> bool:
    return line.v % 2 == 0


def _is_odd(line: Line) -> bool:
    return line.v % 2 == 1


def _join_rows(batches: Batches) -> list[list[Row]]:
    evens: dict[int, list[int]] = {}
    odds: dict[int, list[int]] = {}
    rows = []
    for batch in batches:
        pairs: list[Row] = []
        for line in batch:
            own, others = (odds, evens) if line.v % 2 else (evens, odds)
            own.setdefault(line.k, []).append(line.v)
            for other in others.get(line.k, ()):
                even, odd = (other, line.v) if line.v % 2 else (line.v, other)
                pairs.append((line.k, even * 1000 + odd))
        rows.append(sorted(pairs))
    return rows


def _pandas(frame: DataFrame) -> DataFrame:
    """Each key's sum so far, by a function of the user's."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    pandas: Any = importlib.import_module("pandas")  # has no types

    def add(key: Any, batches: Iterator[Any], state: GroupState) -> Iterator[Any]:
        total = (state.get[0] if state.exists else 0) + sum(int(batch.v.sum()) for batch in batches)
        state.update((total,))
        yield pandas.DataFrame({"k": [key[0]], "w": [total]})

    grouped = frame.groupBy("k")
    return grouped.applyInPandasWithState(add, "k long, w long", "total long", "update", GroupStateTimeout.NoTimeout)


def _transform(frame: DataFrame) -> DataFrame:
    """Each key's sum, last few values and counts by remainder, until nothing was heard of it for a while."""
    timed = frame.selectExpr("k", "v", "t", "timestamp_seconds(t) AS at").withWatermark("at", f"{_DELAY} seconds")
    return timed.groupBy("k").transformWithState(_processor(), "k long, w long", "update", "eventtime")


def _processor() -> StatefulProcessor:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    outage_timeout, kept = _PATIENCE, _KEPT

    class Watched(StatefulProcessor):
        """Value, list and map state, and a timer in event time."""

        def init(self, handle: Any) -> None:
            self.handle = handle
            self.total = handle.getValueState("total", "total long, until long")
            self.last = handle.getListState("last", "v long")
            self.counts = handle.getMapState("counts", "remainder long", "count long")

        def handleInputRows(self, key: Any, rows: Iterator[SparkRow], timerValues: Any) -> Iterator[SparkRow]:  # noqa: ARG002
            total, until = self.total.get() if self.total.exists() else (0, 0)
            last = [value[0] for value in self.last.get()] if self.last.exists() else []
            heard = 0
            for row in sorted(rows, key=lambda row: (row.t, row.v)):
                total, heard = total + row.v, max(heard, row.t)
                last = [*last, row.v][-kept:]
                remainder = (row.v % 3,)
                known = self.counts.getValue(remainder)[0] if self.counts.containsKey(remainder) else 0
                self.counts.updateValue(remainder, (known + 1,))
            if until:
                self.handle.deleteTimer(until)
            until = max(until, (heard + outage_timeout) * 1000)
            self.handle.registerTimer(until)
            self.total.update((total, until))
            self.last.put([(value,) for value in last])
            counts = sum((10 ** remainder[0]) * count[0] for remainder, count in self.counts.iterator())
            yield Row(k=key[0], w=(total + sum(last)) * 10_000 + counts)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[SparkRow]:  # noqa: ARG002
            total, _ = self.total.get()
            for state in (self.total, self.last, self.counts):
                state.clear()
            yield Row(k=key[0], w=-total)

        def close(self) -> None:
            pass

    return Watched()


class _Key:
    """What is known of one key."""

    def __init__(self) -> None:
        self.total, self.until = 0, 0
        self.last: list[int] = []
        self.counts: Counter[int] = Counter()


def _transform_rows(batches: Batches) -> list[list[Row]]:
    """Rows that are late by the watermark of the batch before are dropped; timers fire by that of their batch."""
    keys: dict[int, _Key] = {}
    newest, watermark, watermark_before = 0, 0, 0
    rows: list[list[Row]] = []
    for batch in [*batches, []]:
        data = sorted(batch, key=lambda line: (line.t, line.v))
        out: dict[int, Row] = {}
        for line in data:
            if line.t <= watermark_before:
                continue
            key = keys.setdefault(line.k, _Key())
            key.total += line.v
            key.last = [*key.last, line.v][-_KEPT:]
            key.counts[line.v % 3] += 1
            key.until = max(key.until, line.t + _PATIENCE)
            counts = sum(10**remainder * count for remainder, count in key.counts.items())
            out[line.k] = (line.k, (key.total + sum(key.last)) * 10_000 + counts)
        done = [k for k, key in keys.items() if key.until <= watermark]
        rows.append(sorted([*out.values(), *((k, -keys.pop(k).total) for k in done)]))
        newest = max([newest, *(line.t for line in data)])
        watermark_before, watermark = watermark, max(watermark, newest - _DELAY)
    return rows


STATEFUL: dict[str, Kind] = {
    "join": Kind("append", _join, _join_rows, (_is_even, _is_odd)),
    "pandas": Kind("update", _pandas, aggregation_rows),
    "transform": Kind("update", _transform, _transform_rows),
}

QUERIES = KINDS | STATEFUL
"""All queries of these tests."""
