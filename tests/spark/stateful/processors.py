"""Processors that know nothing of Milepost: PySpark's own, for ``transformWithStateInPandas``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType


class Count(StatefulProcessor):
    """Counts the rows of each key."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], _timerValues: Any) -> Iterator[pd.DataFrame]:
        before = self._count.get()
        count = (before[0] if before else 0) + sum(len(frame) for frame in rows)
        self._count.update((count,))
        yield pd.DataFrame({"word": [key[0]], "count": [count]})


COUNTED = "word string, count long"


class CountLetters(StatefulProcessor):
    """Counts the rows of each key and, from when it came to be asked for, the letters: the query with a column more."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "count long, letters long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], _timerValues: Any) -> Iterator[pd.DataFrame]:
        count, letters = self._count.get() or (0, 0)
        letters = letters or 0  # None where it was counted without letters
        for frame in rows:
            count, letters = count + len(frame), letters + int(frame["letters"].sum())
        self._count.update((count, letters))
        yield pd.DataFrame({"word": [key[0]], "count": [count], "letters": [letters]})


COUNTED_LETTERS = "word string, count long, letters long"


class Sessions(StatefulProcessor):
    """Keeps of each key its rows, how often each value came, and the sum; tells of both, and again once it is over."""

    OUTPUT = "k long, w long, rows long, columns string, values string"

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._sum = handle.getValueState(
            "sum", StructType([StructField("sum", LongType()), StructField("of", StringType())])
        )
        self._rows = handle.getListState("rows", "v long, t long")
        self._times = handle.getMapState("times", "v long", "times long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], _timerValues: Any) -> Iterator[pd.DataFrame]:
        total = self._sum.get()[0] if self._sum.exists() else 0
        columns = ""
        for frame in rows:
            columns = ",".join(frame.columns)
            total += int(frame["v"].sum())
            self._rows.appendList([(int(v), int(t)) for v, t in zip(frame["v"], frame["t"], strict=True)])
            for v in frame["v"]:
                times = self._times.getValue((v % 7,)) if self._times.containsKey((v % 7,)) else (0,)
                self._times.updateValue((v % 7,), (times[0] + 1,))
        self._sum.update((total, f"key {key[0]}"))
        last = max(t for _, t in self._rows.get())
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(last * 1000 + 8000)
        yield self._told(key, columns)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        yield self._told(
            key, f"over at {expiredTimerInfo.getExpiryTimeInMs()}, {timerValues.getCurrentWatermarkInMs()}"
        )
        self._sum.clear()
        self._rows.clear()
        self._times.clear()

    def _told(self, key: Any, columns: str) -> pd.DataFrame:
        values = sorted((k[0], v[0]) for k, v in self._times.iterator())
        rows = len(list(self._rows.get()))
        total = self._sum.get()
        assert total[1] == f"key {key[0]}"
        return pd.DataFrame(
            {"k": [key[0]], "w": [total[0]], "rows": [rows], "columns": [columns], "values": [str(values)]}
        )

    def close(self) -> None:
        pass


class CountRows(StatefulProcessor):
    """Counts in rows, for ``transformWithState``; what a null is, and how rows look, comes out as text."""

    OUTPUT = "k long, seen string, count long"

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInitialState(self, _key: Any, initialState: Any, _timerValues: Any) -> None:
        self._count.update((initialState.before,))

    def handleInputRows(self, key: Any, rows: Iterator[Row], _timerValues: Any) -> Iterator[Row]:
        (count,) = self._count.get() or (0,)
        seen = []
        for row in rows:
            count += 1
            seen.append(f"{row.asDict()}")
        self._count.update((count,))
        yield Row(k=key[0], seen="; ".join(sorted(seen)), count=count)


class FailsAt(Count):
    """Counts, and cannot at one word."""

    def __init__(self, word: str) -> None:
        self._word = word

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        if key[0] == self._word:
            raise KeyError(f"cannot count {self._word}")
        return super().handleInputRows(key, rows, timerValues)
