"""The tables about jobs: their schemas, and their rows, which the planning process reads from the service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from milepost.client import Client
from milepost.errors import BatchesGone
from milepost.files import walk
from milepost.job_types import HistoryEntry
from milepost.spark.datasource.conversion import arrow_schema, named
from milepost.spark.datasource.file_systems import files_of
from milepost.spark.datasource.options import BATCHES, FILES, HISTORY, JOBS, Options
from milepost.spark.output.listing import Published

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_ROWS: Final = 10_000
"""The most rows of one partition."""

SCHEMAS: Final = {
    HISTORY: (
        "id string, at timestamp, kind string, revision bigint, epoch bigint, batch bigint, directory string, "
        "replay boolean, input_rows bigint, holder string, session string, host string, pid bigint, "
        "application string, ui string, "
        "since timestamp, how string, by string, snapshot bigint, previous bigint, previous_batch bigint, "
        "savepoint string, source string, files bigint, bytes bigint, partitions bigint, "
        "previous_partitions bigint, begun_under bigint, page string, reason string, restored boolean, entries bigint"
    ),
    FILES: (
        "path string, directory boolean, size bigint, sha256 string, version string, modified timestamp, epoch bigint"
    ),
    JOBS: (
        "job string, state string, epoch bigint, holder string, since timestamp, standbys bigint, batch bigint, "
        "directory string, committed timestamp, batches_an_hour double, damaged bigint"
    ),
    BATCHES: "batch bigint, epoch bigint, directory string, files bigint, bytes bigint, schema string",
}
"""The schema of each table, in Spark's DDL."""


class RowsPartition(InputPartition):
    """Rows that an executor hands on."""

    def __init__(self, batches: tuple[pa.RecordBatch, ...]) -> None:
        self.batches = batches


def partitions_with(rows: Iterable[dict[str, Any]], schema: StructType) -> list[InputPartition]:
    """Return partitions with all ``rows``."""
    target = arrow_schema(schema)
    found, made = iter(rows), []
    while part := list(islice(found, _ROWS)):
        made.append(RowsPartition((pa.RecordBatch.from_pylist(part, schema=target),)))
    return [*made]


def check_columns(table: str, schema: StructType) -> None:
    """Raise ValueError if a program wants a column that the table does not have."""
    columns = [column.split()[0] for column in SCHEMAS[table].split(", ")]
    unknown = [name for name in schema.names if named(columns, name) is None]
    if unknown:
        raise ValueError(f"the table {table!r} has no column {', '.join(unknown)}: it has {', '.join(columns)}")


def rows_in(options: Options, client: Client) -> Iterator[dict[str, Any]]:
    """Read the rows of the table that the options name."""
    return _READERS[options.table](options, client)


def history_row(entry: HistoryEntry) -> dict[str, Any]:
    """Return the row of an entry."""
    row = {name: value for name, value in vars(entry).items() if name != "process"}
    return row if entry.process is None else {**row, **vars(entry.process)}


def _history(options: Options, client: Client) -> Iterator[dict[str, Any]]:
    for entry in client.job_history(options.store):
        yield history_row(entry)


def _files(options: Options, client: Client) -> Iterator[dict[str, Any]]:
    root = f".snapshot/{options.snapshot}" if options.snapshot else ""
    for entry in walk(client.store(options.store).files, root):
        yield vars(entry)


def _jobs(options: Options, client: Client) -> Iterator[dict[str, Any]]:
    del options
    for job in client.jobs():
        epoch, batch = job.epoch, job.batch
        yield {
            "job": job.job,
            "state": job.state,
            "epoch": epoch and epoch.epoch,
            "holder": epoch and epoch.holder,
            "since": epoch and epoch.since,
            "standbys": job.standby_count,
            "batch": batch and batch.batch,
            "directory": batch and batch.directory,
            "committed": batch and batch.taken,
            "batches_an_hour": job.batches_an_hour,
            "damaged": job.damaged,
        }


def _batches(options: Options, client: Client) -> Iterator[dict[str, Any]]:
    for batch in chosen(options, client).batches:
        yield {
            "batch": batch.batch,
            "epoch": batch.epoch,
            "directory": batch.directory,
            "files": len(batch.files),
            "bytes": sum(size for _, size in batch.files),
            "schema": batch.schema,
        }


_READERS: Final[dict[str, Callable[[Options, Client], Iterator[dict[str, Any]]]]] = {
    HISTORY: _history,
    FILES: _files,
    JOBS: _jobs,
    BATCHES: _batches,
}


def chosen(options: Options, client: Client) -> Published:
    """Read what a job has published, as far as the option ``batches`` wants it.

    Raises `BatchesGone` if that names expired batches.
    """
    published = Published(client, options.store, lambda output: files_of(output, options.timeout))
    if options.batches is not None:
        gone = [part for part in options.batches if part.start < published.expired]
        if gone:
            raise BatchesGone(
                f"the option batches names batches that are expired: the job has those from {published.expired} on",
                [batch for part in gone for batch in part[: published.expired - part.start]],
            )
        wanted = options.batches
        published.batches = [each for each in published.batches if any(each.batch in part for part in wanted)]
    return published
