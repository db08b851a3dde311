"""What went in against what came out, row by row and carrier by carrier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Comparison:
    """Rows are told apart by their ``id``.

    ``duplicates``: rows that came out although their id had come out before. ``losses``: ids that never came out.
    ``strangers``: ids that came out and never went in. ``wrong_sums``: carriers whose flights or miles, added up over
    what came out, differ from a computation over the input as a whole. ``wrong_totals``: carriers whose last running
    total differs from it.
    """

    rows_in: int
    rows_out: int
    duplicates: int
    losses: int
    strangers: int
    carriers: int
    wrong_sums: int
    wrong_totals: int

    @property
    def exact(self) -> bool:
        """Whether everything came out exactly once and added up."""
        return not (self.duplicates or self.losses or self.strangers or self.wrong_sums or self.wrong_totals)


def compare(given: pa.Table, published: pa.Table) -> Comparison:
    """``given`` has the columns id, carrier, distance; ``published`` has flights and miles, the running totals, too."""
    ids_in, ids_out = set(given["id"].to_pylist()), set(published["id"].to_pylist())
    expected = _sums(given)
    sums, totals = _sums(published), _last_totals(published)
    return Comparison(
        rows_in=given.num_rows,
        rows_out=published.num_rows,
        duplicates=published.num_rows - len(ids_out),
        losses=len(ids_in - ids_out),
        strangers=len(ids_out - ids_in),
        carriers=len(expected),
        wrong_sums=_differences(expected, sums),
        wrong_totals=_differences(expected, totals),
    )


def _sums(table: pa.Table) -> dict[str, tuple[int, int]]:
    """Flights and miles of each carrier, counted over all rows."""
    return _by_carrier(table, [("id", "count"), ("distance", "sum")])


def _last_totals(table: pa.Table) -> dict[str, tuple[int, int]]:
    """The highest running totals of each carrier."""
    return _by_carrier(table, [("flights", "max"), ("miles", "max")])


def _by_carrier(table: pa.Table, aggregates: list[Any]) -> dict[str, tuple[int, int]]:
    grouped = table.group_by("carrier").aggregate(aggregates)
    columns = [grouped[f"{column}_{function}"].to_pylist() for column, function in aggregates]
    return dict(zip(grouped["carrier"].to_pylist(), zip(*columns, strict=True), strict=True))


def _differences(expected: dict[str, tuple[int, int]], found: dict[str, tuple[int, int]]) -> int:
    return sum(expected.get(carrier) != found.get(carrier) for carrier in expected.keys() | found.keys())
