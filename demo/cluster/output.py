"""What the job has written, batch by batch, against what was fed to it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

_FILE = re.compile(r"batch-(\d+)-(.+)")
Totals = dict[str, tuple[int, int]]
"""Flights and miles of each carrier."""


@dataclass(frozen=True)
class Found:
    """``rows_out`` are the flights in the totals that the batches end with; of a batch, its newest file counts.

    ``again`` are the numbers of batches that were written more than once, and ``otherwise`` those of them of which not
    all files say the same.
    """

    rows_in: int
    rows_out: int
    carriers: int
    wrong_totals: int
    batches: int
    again: tuple[int, ...]
    otherwise: tuple[int, ...]


def totals_of(directory: Path) -> Totals:
    """The totals that the batches in ``directory`` end with."""
    totals: Totals = {}
    for _, files in sorted(_batches(directory).items()):
        totals |= _read(max(files, key=lambda file: file.stat().st_mtime_ns))
    return totals


def flights_in(totals: Totals) -> int:
    """How many flights they count."""
    return sum(flights for flights, _ in totals.values())


def look(directory: Path, flights: pa.Table) -> Found:
    """Compare the output in ``directory`` with all ``flights``."""
    grouped = flights.group_by("carrier").aggregate([("id", "count"), ("distance", "sum")])
    columns = (grouped[name].to_pylist() for name in ("carrier", "id_count", "distance_sum"))
    expected: Totals = {carrier: (count, miles) for carrier, count, miles in zip(*columns, strict=True)}
    totals, batches = totals_of(directory), _batches(directory)
    again = {number: {file.read_text() for file in files} for number, files in batches.items() if len(files) > 1}
    return Found(
        rows_in=flights.num_rows,
        rows_out=flights_in(totals),
        carriers=len(expected),
        wrong_totals=sum(expected.get(carrier) != totals.get(carrier) for carrier in expected.keys() | totals.keys()),
        batches=len(batches),
        again=tuple(sorted(again)),
        otherwise=tuple(sorted(number for number, texts in again.items() if len(texts) > 1)),
    )


def _batches(directory: Path) -> dict[int, list[Path]]:
    found = defaultdict(list)
    for file in directory.iterdir():
        if match := _FILE.fullmatch(file.name):
            found[int(match[1])].append(file)
    return dict(found)


def _read(file: Path) -> Totals:
    lines = (line.split() for line in file.read_text().splitlines())
    return {carrier: (int(flights), int(miles)) for carrier, flights, miles in lines}
