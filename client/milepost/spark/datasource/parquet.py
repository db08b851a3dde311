"""Plans and reads the Parquet files of published batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition

from milepost.errors import BatchesGone, RecordUnreadable, UnsafeQuery
from milepost.spark.datasource.conversion import arrow_schema, converted, named
from milepost.spark.datasource.file_systems import files_of
from milepost.spark.output.manifest import PublishedBatch
from milepost.spark.output.reader import BATCH
from milepost.spark.output.schemas import united

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_PARTITION_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of several files in one partition, so in one task; a larger file has a partition of its own."""
_FILE_COST: Final = 4 * 1024 * 1024
"""The bytes that opening a file counts as, as in Spark's setting ``spark.sql.files.openCostInBytes``."""
_ROWS: Final = 10_000
_OLD_CALENDAR: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True)
class PublishedFile:
    """A file of a batch: its URI and its size in bytes."""

    batch: int
    uri: str
    size: int


class FilesPartition(InputPartition):
    """Files that one task reads."""

    def __init__(self, files: tuple[PublishedFile, ...]) -> None:
        self.files = files


def partitions_of(output: str, batches: Iterable[PublishedBatch], schema: StructType) -> list[InputPartition]:
    """Divide the files of ``batches`` among tasks, in their order.

    Raises `UnsafeQuery` for a batch whose rows cannot be read with ``schema``.
    """
    made: list[InputPartition] = []
    files: list[PublishedFile] = []
    cost, checked = 0, set()
    wanted = type(schema)([field for field in schema.fields if field.name.lower() != BATCH]).json()
    if any(field.name.lower() == BATCH and field.dataType.typeName() != "long" for field in schema.fields):
        raise UnsafeQuery(
            "the column batch is the number of the batch, a bigint: name it so in schema(), or leave it out"
        )
    for batch in batches:
        if batch.schema not in checked:
            checked.add(batch.schema)
            advice = f"for batch {batch.batch}, start the query anew, without schema() or with a wider type there"
            united(batch.schema, wanted, advice)
        for name, size in batch.files:
            if files and cost + size + _FILE_COST > _PARTITION_BYTES:
                made.append(FilesPartition(tuple(files)))
                files, cost = [], 0
            files.append(PublishedFile(batch.batch, f"{output}/{batch.directory}/{name}", size))
            cost += size + _FILE_COST
    if files:
        made.append(FilesPartition(tuple(files)))
    return made


def rows_of(partition: InputPartition, schema: StructType, timeout: float) -> Iterator[pa.RecordBatch]:
    """Read the files of a partition with ``schema``.

    Raises `BatchesGone` if a file is gone, and `RecordUnreadable` if it is not the one that was published.
    """
    target = arrow_schema(schema)
    for each in partition.files if isinstance(partition, FilesPartition) else ():
        try:
            yield from _rows_of_file(each, target, timeout)
        except FileNotFoundError as error:
            raise BatchesGone(
                f"{each.uri} of batch {each.batch} is gone: the batch has expired since the query was planned, or "
                "another hand has deleted the file",
                [each.batch],
            ) from error
        except (pa.ArrowInvalid, OSError) as error:
            raise RecordUnreadable(f"{each.uri} of batch {each.batch} cannot be read: {error}") from error


def _rows_of_file(published: PublishedFile, target: pa.Schema, timeout: float) -> Iterator[pa.RecordBatch]:
    constants = {field.name: published.batch for field in target if field.name.lower() == BATCH}
    with files_of(published.uri, timeout).open(published.uri) as source:
        if source.size() != published.size:
            raise RecordUnreadable(
                f"{published.uri} has {source.size()} bytes, and had {published.size} when batch {published.batch} was "
                "published"
            )
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file:
            found = file.schema_arrow
            if any(key in (found.metadata or {}) for key in _OLD_CALENDAR):
                raise UnsafeQuery(
                    f"{published.uri} has dates of the Julian calendar, which only Spark's own readers convert: use "
                    "milepost.spark.read_published"
                )
            places = {named(found.names, field.name) for field in target} - {None}
            columns = [found.names[place] for place in sorted(place for place in places if place is not None)]
            # Arrow takes a name with a dot for a field of a struct, so such files are read with all columns.
            chosen = None if any("." in name for name in found.names) else columns
            for rows in file.iter_batches(batch_size=_ROWS, columns=chosen, use_threads=False):
                yield converted(rows, target, constants)
