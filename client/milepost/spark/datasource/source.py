"""The class that Spark registers, and the reader of batch queries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from milepost.errors import UnsafeQuery
from milepost.spark.datasource.entries import HistoryStream
from milepost.spark.datasource.file_systems import files_of
from milepost.spark.datasource.limits import LIMITS
from milepost.spark.datasource.options import PUBLISHED, Options, options_from
from milepost.spark.datasource.parquet import partitions_of, rows_of
from milepost.spark.datasource.published import PublishedStream
from milepost.spark.datasource.tables import (
    SCHEMAS,
    RowsPartition,
    check_columns,
    chosen,
    partitions_with,
    rows_in,
)
from milepost.spark.output.listing import Published
from milepost.spark.output.reader import BATCH, nullable

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class MilepostDataSource(DataSource):
    """Published output, history, files and jobs as DataFrames, under the name ``milepost``.

    Register it by ``spark.dataSource.register(MilepostDataSource)``. The option ``table`` names what is read, by
    default ``published``: the rows that `Job.files` has published, as `milepost.spark.read_published` reads them. The
    options ``url``, ``token``, ``token_file``, ``verify``, ``cert``, ``key`` and ``timeout`` are the arguments of
    `milepost.Client`. Without ``url``, the environment of Spark's driver describes the service.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "milepost"

    def schema(self) -> StructType | str:
        """Return the schema of the table: of ``published`` that of the newest batch, with the column ``batch``.

        Raises `UnsafeQuery` if nothing is published yet, since the columns are not known then.
        """
        options = options_from(self.options)
        return SCHEMAS[options.table] if options.table in SCHEMAS else _published_schema(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        options = options_from(self.options, stream=False)
        self._forget()
        return TableReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        options = options_from(self.options, stream=True)
        if options.most_batches is not None and not LIMITS:
            raise ValueError("the option maxBatchesPerTrigger needs Spark 4.2 or later")
        self._forget()
        if options.table == PUBLISHED:
            return PublishedStream(options, schema)
        check_columns(options.table, schema)
        return HistoryStream(options, schema)

    def _forget(self) -> None:
        """Forget the options: Spark sends this object to the executors from now on, which need none of them."""
        self.options = {}


def _published_schema(options: Options) -> StructType:
    from pyspark.sql.types import LongType, StructField, StructType

    with options.client() as client:
        # Only the newest page has to be read for the schema.
        published = Published(client, options.store, lambda output: files_of(output, options.timeout), ())
    if not published.frame:
        raise UnsafeQuery(
            f"the job {options.store} has published nothing yet, so its columns are not known: name them by schema()"
        )
    fields = StructType.fromJson(nullable(json.loads(published.frame))).fields
    return StructType([*fields, StructField(BATCH, LongType())])


class TableReader(DataSourceReader):
    """Reads a table once. A copy for executors has no options."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options: Options | None = options
        self._schema = schema
        self._timeout = options.timeout
        if options.table != PUBLISHED:
            check_columns(options.table, schema)

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": None, "_schema": self._schema, "_timeout": self._timeout}

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the files of published batches; read the rows of another table."""
        options = self._options
        assert options is not None, "executors plan nothing"
        with options.client() as client:
            if options.table != PUBLISHED:
                return partitions_with(rows_in(options, client), self._schema)
            published = chosen(options, client)
        return partitions_of(published.output, published.batches, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition, on an executor."""
        if isinstance(partition, RowsPartition):
            return iter(partition.batches)
        return rows_of(partition, self._schema, self._timeout)
