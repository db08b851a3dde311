"""How many rows batches have read: what was collected is sent once, after outages too, and never instead of a batch."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from milepost.errors import Fenced, InvalidRequest, MilepostError, Unavailable
from milepost.rows import BatchRows, RowReports
from milepost.wire import MAX_ROWS, Code

AWAY = Unavailable(Code.STORAGE_UNAVAILABLE, "away")


class Store:
    """A fake of a service that raises the given faults, and then takes what comes: no real one fails on demand."""

    def __init__(self, *faults: MilepostError) -> None:
        self.faults = list(faults)
        self.got: list[tuple[str, Mapping[int, int]]] = []

    def report_rows(self, directory: str, rows: Mapping[int, int], *, timeout: float | None = None) -> int:
        assert timeout is not None
        if self.faults:
            raise self.faults.pop(0)
        self.got.append((directory, dict(rows)))
        return len(rows)


def test_each_batch_is_sent_once_with_those_of_its_directory() -> None:
    store, new = Store(), [BatchRows("a", 3, 5), BatchRows("b", 0, 7), BatchRows("a", 4, 0)]
    reports = RowReports(store, lambda: [new.pop(0) for _ in new[:]])
    for _ in range(2):
        reports.report()
    new += [BatchRows("a", 5, 8)]
    reports.report()
    assert store.got == [("a", {3: 5, 4: 0}), ("b", {0: 7}), ("a", {5: 8})]


def test_an_outage_delays_a_report_and_a_long_one_loses_the_oldest() -> None:
    batches = [BatchRows("a", batch, batch) for batch in range(MAX_ROWS + 5)]
    store, new = Store(AWAY, AWAY), iter([batches[:1], batches[1:2], batches[2:]])
    reports = RowReports(store, lambda: next(new))
    for _ in range(2):
        reports.report()
    assert store.got == []
    reports.report()
    assert store.got == [("a", {batch: batch for batch in range(5, MAX_ROWS + 5)})]


def test_an_outage_while_rows_are_collected_is_none_of_the_driver() -> None:
    def collect() -> list[BatchRows]:
        raise AWAY

    store = Store()
    RowReports(store, collect).report()
    assert store.got == []


def test_a_refusal_ends_the_reports_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "milepost")
    asked: list[int] = []

    def collect() -> list[BatchRows]:
        asked.append(1)
        return [BatchRows("a", 0, 1)]

    for refusal, told in ((InvalidRequest(Code.NO_ROUTE, "no route"), 1), (Fenced(Code.FENCED), 0)):
        caplog.clear()
        asked.clear()
        store = Store(refusal)
        reports = RowReports(store, collect)
        reports.start()
        reports.close()
        assert (store.got, len(asked)) == ([], 1)
        assert caplog.text.count("takes no numbers of rows") == told


def test_what_the_queries_did_last_is_sent_at_the_end() -> None:
    store, new = Store(), [BatchRows("a", 0, 1)]
    reports = RowReports(store, lambda: [new.pop() for _ in new[:]])
    reports.start()
    reports.start()
    reports.close()
    reports.start()
    assert store.got == [("a", {0: 1})]
