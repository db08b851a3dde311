"""Formats rows as a text table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def table(rows: Iterable[Sequence[object]]) -> str:
    """Format rows as left-aligned columns with two spaces between them; None is shown as ``-``."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items()) or "-"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value) or "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
