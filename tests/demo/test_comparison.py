"""Every way in which output can differ from input is counted, and only that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from demo.report.comparison import Comparison, compare

FLIGHTS = [(0, "AA", 100), (1, "AA", 50), (2, "UA", 700), (3, "AA", 25)]
PUBLISHED = [(0, "AA", 100, 1, 100), (1, "AA", 50, 2, 150), (2, "UA", 700, 1, 700), (3, "AA", 25, 3, 175)]
EXACT = Comparison(4, 4, duplicates=0, losses=0, strangers=0, carriers=2, wrong_sums=0, wrong_totals=0)


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    names = ("id", "carrier", "distance", "flights", "miles")[: len(rows[0])]
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_what_comes_out_once_in_any_order_is_exact() -> None:
    found = compare(table(FLIGHTS), table(PUBLISHED[::-1]))
    assert found == EXACT
    assert found.exact


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        pytest.param(
            [*PUBLISHED, PUBLISHED[1], PUBLISHED[1]],
            replace(EXACT, rows_out=6, duplicates=2, wrong_sums=1),
            id="one row twice more",
        ),
        pytest.param(
            PUBLISHED[:3],
            replace(EXACT, rows_out=3, losses=1, wrong_sums=1, wrong_totals=1),
            id="the last row lost",
        ),
        pytest.param(
            [PUBLISHED[0], PUBLISHED[1], PUBLISHED[3]],
            replace(EXACT, rows_out=3, losses=1, wrong_sums=1, wrong_totals=1),
            id="a carrier lost",
        ),
        pytest.param(
            [*PUBLISHED, (9, "B6", 10, 1, 10)],
            replace(EXACT, rows_out=5, strangers=1, wrong_sums=1, wrong_totals=1),
            id="a row from nowhere",
        ),
        pytest.param(
            [*PUBLISHED[:3], (3, "AA", 25, 1, 25)],
            replace(EXACT, wrong_totals=1),
            id="totals that began anew",
        ),
        pytest.param(
            [*PUBLISHED[:3], (2, "UA", 700, 1, 700)],
            replace(EXACT, duplicates=1, losses=1, wrong_sums=2, wrong_totals=1),
            id="one row for another: the number of rows alone would not tell",
        ),
    ],
)
def test_a_difference_is_counted(published: list[tuple[Any, ...]], expected: Comparison) -> None:
    found = compare(table(FLIGHTS), table(published))
    assert found == expected
    assert not found.exact
