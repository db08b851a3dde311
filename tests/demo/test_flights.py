"""The input is all flights, each with an id of its own, in files that Spark takes in their order."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from demo.flights import all_flights, write_files


def test_every_flight_of_2013_has_an_id_and_a_carrier() -> None:
    flights = all_flights()
    assert flights.num_rows == 336_776
    assert set(flights.column_names) == {"id", "carrier", "origin", "dest", "distance"}
    assert flights["id"].to_pylist() == list(range(336_776))
    assert len(set(flights["carrier"].to_pylist())) == 16
    assert flights["distance"].null_count == 0


def test_files_hold_every_row_once_and_their_times_ascend(tmp_path: Path) -> None:
    directory = tmp_path / "input"
    write_files(pa.table({"id": list(range(10))}), directory, 4)
    paths = sorted(directory.iterdir())
    assert [parquet.read_table(path)["id"].to_pylist() for path in paths] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    times = [path.stat().st_mtime for path in paths]
    assert times == sorted(set(times))
