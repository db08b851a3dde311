"""How many rows a batch has read: what Spark says is sent once, after outages too, and never instead of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from milepost.errors import Fenced, Unavailable
from milepost.spark.driver.rows import RowReports
from milepost.wire import MAX_ROWS, Code


class Store:
    """A service that answers as it is told, and then takes what comes."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.got: list[Mapping[int, int]] = []

    def report_rows(self, directory: str, rows: Mapping[int, int], *, timeout: float | None = None) -> int:
        assert (directory, timeout is not None) == ("checkpoint", True)
        if self.faults:
            raise self.faults.pop(0)
        self.got.append(dict(rows))
        return len(rows)


def progress(batch: int, rows: int, step: str = "addBatch") -> Any:
    durations = SimpleNamespace(containsKey=lambda name: name == step)
    return SimpleNamespace(batchId=lambda: batch, numInputRows=lambda: rows, durationMs=lambda: durations)


class Query:
    """A query with the progress that it made so far."""

    def __init__(self, *known: Any) -> None:
        self.known = list(known)
        self._jsq = SimpleNamespace(recentProgress=lambda: self.known)


def reports(store: Store, query: Query) -> RowReports:
    found: Any = query
    return RowReports(store, lambda: found)


def test_each_batch_is_sent_once_and_a_look_without_input_is_none() -> None:
    store, query = Store(), Query(progress(3, 5), progress(4, 0), progress(5, 0, "latestOffset"))
    report = reports(store, query)
    for _ in range(2):
        report.collect()
        report.send()
    query.known += [progress(5, 8)]
    report.collect()
    report.send()
    assert store.got == [{3: 5, 4: 0}, {5: 8}]


def test_an_outage_delays_a_report_and_a_long_one_loses_the_oldest() -> None:
    away = Unavailable(Code.STORAGE_UNAVAILABLE, "away")
    store, query = Store(away, away), Query()
    report = reports(store, query)
    for batch in range(MAX_ROWS + 5):
        query.known.append(progress(batch, batch))
        report.collect()
        if batch < 2:
            report.send()
    report.send()
    assert store.got == [{batch: batch for batch in range(5, MAX_ROWS + 5)}]


def test_a_refusal_ends_the_reports_and_nothing_else() -> None:
    report = reports(Store(Fenced(Code.FENCED)), Query(progress(0, 1)))
    report.collect()
    with pytest.raises(Fenced):
        report.send()


def test_what_the_query_did_last_is_sent_at_the_end() -> None:
    store, query = Store(), Query(progress(0, 1))
    report = reports(store, query)
    report.start()
    report.start()
    report.close()
    report.start()
    assert store.got == [{0: 1}]
