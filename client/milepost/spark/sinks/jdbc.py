"""A sink that writes each batch of a job into a table of PostgreSQL exactly once.

::

    from milepost.spark.sinks.jdbc import JdbcTable

    table = JdbcTable("jdbc:postgresql://db/flights", "public.delays", properties={"user": …}, batch_column="batch")
    frame.writeStream.foreachBatch(job.exactlyOnce(table))

Spark's tasks write the rows of an attempt into a table of its own, the stage. The driver then moves them with one
statement, in a transaction that also changes the table's row in ``milepost_fences`` (`milepost.spark.sinks.fence`). So
the rows of a batch and the note that the table has it are there together or not at all, also when the driver dies, is
frozen and comes late, or does not learn how its commit ended.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.sql.functions import lit, monotonically_increasing_id

from milepost.errors import SinkFailed, SinkRefused
from milepost.spark.publishing import BatchContext
from milepost.spark.sinks.database import DRIVER, Database, connected
from milepost.spark.sinks.fence import FenceRow, Step, decide, decode_runs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SINK = "milepost.spark.sinks.jdbc"
FENCES = "milepost_fences"
_ROW = "milepost_row"
"""The primary key of a stage: Spark's number of the row. If a task's commit was not seen and Spark runs the task again,
the second commit fails by it, where the rows would otherwise be there twice.
"""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_STAGE_LOCK_SECONDS = 2.0
_log = logging.getLogger(__name__)


class JdbcTable:
    """A publishing function for `Job.exactlyOnce`, which adds the rows of each batch to one table.

    ``table`` is its name, perhaps with its schema, in letters that need no quotes. If it does not exist, Spark creates
    it with the types of the first batch. One job writes into a table. ``properties`` are those of the connection, such
    as user and password; they are never logged.

    With ``keys``, a row replaces the one that has the same values in these columns, which need a unique constraint.
    With ``batch_column``, the table keeps the number of the batch in that column, of type bigint: after a restore of
    the job, the next batch first deletes the rows that count no more. Without it, such a batch is refused until
    an operator has taken the rows back. The two exclude each other, since the old values of a replaced row are lost.

    ``timeout`` bounds each statement, in seconds.

    A call raises `SinkRefused` if the table must not get the batch, and `SinkFailed` for errors of the database.
    """

    def __init__(
        self,
        url: str,
        table: str,
        *,
        properties: Mapping[str, str] | None = None,
        keys: Sequence[str] = (),
        batch_column: str | None = None,
        timeout: float = 600.0,
    ) -> None:
        if not url.startswith("jdbc:postgresql:"):
            raise ValueError("the address must begin with jdbc:postgresql: (no other database has been tried)")
        if not _NAME.fullmatch(table):
            raise ValueError(
                f"{table!r} is no name of a table: letters, digits and _, perhaps after a schema and a dot"
            )
        if isinstance(keys, str):
            raise TypeError(f"keys is a list of columns: [{keys!r}]")
        if keys and batch_column is not None:
            raise ValueError("a table has keys or a batch_column: a row that was replaced cannot be taken back")
        if timeout <= 0:
            raise ValueError("timeout must be positive")
        defaults = {
            "connectTimeout": "10",
            "socketTimeout": str(round(timeout) + 60),
            "tcpKeepAlive": "true",
            "stringtype": "unspecified",  # a string may go into a column of type jsonb, uuid or inet
        }
        self._url = url
        self._table = table
        self._properties = {**defaults, **(properties or {}), "driver": DRIVER}
        self._keys = tuple(keys)
        self._batch_column = batch_column
        self._timeout = timeout
        self._prepared: _Target | None = None

    def __repr__(self) -> str:
        return f"<JdbcTable {self._table!r}>"

    def __call__(self, frame: DataFrame, context: BatchContext) -> dict[str, Any]:
        """Write a batch, unless the table has it. Return the JSON for the job record: table, batch and rows."""
        frame = self._numbered(frame, context)
        with connected(frame.sparkSession, self._url, self._properties, self._timeout) as database:
            target = self._prepared = self._prepared or self._prepare(frame, context, database)
            expected = max((each["batch"] for each in _own(context.previous_manifest, target.table)), default=-1)
            with database.transaction():
                fence = target.fence(database, context)
                step = self._decide(fence, context, expected, target)
                if step.there:
                    _log.info("batch %d is in table %s already, nothing is written", context.batchId, target.table)
                    return _manifest(target.table, context, fence.rows)
                stage = target.create_stage(database, context, frame.columns)
            self._write(frame.withColumn(_ROW, monotonically_increasing_id()), stage)
            with database.transaction():
                fence = target.fence(database, context)
                step = self._decide(fence, context, expected, target)
                rows = (
                    fence.rows
                    if step.there
                    else self._move(database, target, stage, frame.columns, context, fence, step)
                )
            _drop(database, [stage])
            return _manifest(target.table, context, rows)

    def _numbered(self, frame: DataFrame, context: BatchContext) -> DataFrame:
        """Return the frame with the column of the batch, if the table has one."""
        taken = {column.lower() for column in frame.columns} & {_ROW, (self._batch_column or _ROW).lower()}
        if taken:
            raise SinkRefused(f"the output has a column {min(taken)}, which the sink sets itself; rename it")
        if self._batch_column is None:
            return frame
        return frame.withColumn(self._batch_column, lit(context.batchId).cast("long"))

    def _prepare(self, frame: DataFrame, context: BatchContext, database: Database) -> _Target:
        """Create the table and that of the fences where they are missing, and delete stages that drivers of older
        epochs left behind.
        """
        with database.transaction():
            found = _Target.find(database, self._table)
        if found is None:
            _log.info("table %s does not exist: creating it with the columns of the first batch", self._table)
            self._write(frame.limit(0), self._table)
            with database.transaction():
                found = _Target.find(database, self._table)
        if found is None:
            raise SinkFailed(f"table {self._table} is not found after it was created")
        with database.transaction():
            found.create_fences(database)
            left = found.old_stages(database, context)
        _drop(database, left)
        return found

    def _decide(self, fence: FenceRow, context: BatchContext, expected: int, target: _Target) -> Step:
        step = decide(fence, context, expected)
        if step.take_back is not None and self._batch_column is None:
            raise SinkRefused(
                f"the job was restored to batch {step.take_back}, and table {self._table} still has the rows of "
                f"batches {step.take_back + 1} to {fence.batch}. It keeps no number of the batch, so the sink cannot "
                f"tell which these are. Take them back, then run: UPDATE {target.fences} SET batch = {step.take_back} "
                f"WHERE target = '{target.table}' AND batch = {fence.batch}"
            )
        return step

    def _move(
        self,
        database: Database,
        target: _Target,
        stage: str,
        columns: Sequence[str],
        context: BatchContext,
        fence: FenceRow,
        step: Step,
    ) -> int:
        """Move the rows of a stage to the table, and change the fence; return how many rows these were."""
        if step.take_back is not None and self._batch_column is not None:
            column = _quoted(self._batch_column)
            gone = database.execute(f"DELETE FROM {target.table} WHERE {column} > ?", step.take_back)
            _log.warning(
                "the job was restored to batch %d: %d rows of later batches are deleted from table %s, and batch %d "
                "is written",
                step.take_back,
                gone,
                target.table,
                context.batchId,
            )
        names = ", ".join(map(_quoted, columns))
        insert = f"INSERT INTO {target.table} ({names}) SELECT {names} FROM {stage}"
        rows = database.execute(insert + self._on_conflict(columns))
        target.note(database, fence.written(context, rows))
        return rows

    def _on_conflict(self, columns: Sequence[str]) -> str:
        if not self._keys:
            return ""
        others = [_quoted(column) for column in columns if column not in self._keys]
        act = f"UPDATE SET {', '.join(f'{each} = EXCLUDED.{each}' for each in others)}" if others else "NOTHING"
        return f" ON CONFLICT ({', '.join(map(_quoted, self._keys))}) DO {act}"

    def _write(self, frame: DataFrame, table: str) -> None:
        frame.write.jdbc(self._url, table, mode="append", properties=self._properties)


class _Target:
    """The table of a sink by its full name, the fences and the stages in its schema."""

    def __init__(self, schema: str, name: str) -> None:
        self._schema = schema
        self._stages = f"milepost_stage_{sha256(name.encode()).hexdigest()[:8]}"
        self.table = f"{_quoted(schema)}.{_quoted(name)}"
        self.fences = f"{_quoted(schema)}.{FENCES}"

    @classmethod
    def find(cls, database: Database, table: str) -> _Target | None:
        """Return the table that PostgreSQL finds by this name; None if there is none."""
        found = database.row(
            "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = to_regclass(?)",
            table,
        )
        return None if found is None else cls(*found)

    def create_fences(self, database: Database) -> None:
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {self.fences} (target text PRIMARY KEY, job text NOT NULL, "
            "epoch bigint NOT NULL, batch bigint NOT NULL, rows bigint NOT NULL, runs text NOT NULL)"
        )

    def fence(self, database: Database, context: BatchContext) -> FenceRow:
        """Read the row of this table and lock it until the end of the transaction. If there is none, insert it, for
        the job of ``context`` and without a batch.
        """
        new = FenceRow(context.job, context.epoch)
        database.execute(
            f"INSERT INTO {self.fences} VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (target) DO NOTHING",
            *(self.table, new.job, new.epoch, new.batch, new.rows, new.encode_runs()),
        )
        found = database.row(
            f"SELECT job, epoch, batch, rows, runs FROM {self.fences} WHERE target = ? FOR UPDATE", self.table
        )
        if found is None:
            raise SinkFailed(f"the row of table {self.table} in {self.fences} was deleted meanwhile")
        job, epoch, batch, rows, runs = found
        return FenceRow(job, epoch, batch, rows, decode_runs(runs))

    def note(self, database: Database, fence: FenceRow) -> None:
        """Replace the row of this table."""
        database.execute(
            f"UPDATE {self.fences} SET epoch = ?, batch = ?, rows = ?, runs = ? WHERE target = ?",
            *(fence.epoch, fence.batch, fence.rows, fence.encode_runs(), self.table),
        )

    def create_stage(self, database: Database, context: BatchContext, columns: Sequence[str]) -> str:
        """Create a stage that no other attempt uses, with the columns of the table that the output has, and return its
        name. It is logged like any other table: an unlogged one would be emptied by a crash of the database, and the
        batch with it.
        """
        name = f"{self._stages}_{context.job[:12]}_e{context.epoch}_{uuid.uuid4().hex[:8]}"
        stage = f"{_quoted(self._schema)}.{name}"
        names = ", ".join(map(_quoted, columns))
        database.execute(f"CREATE TABLE {stage} AS SELECT {names} FROM {self.table} WHERE false")
        database.execute(f"ALTER TABLE {stage} ADD COLUMN {_ROW} bigint PRIMARY KEY")
        return stage

    def old_stages(self, database: Database, context: BatchContext) -> list[str]:
        """Return the stages of this table that drivers of older epochs of the job made."""
        prefix = f"{self._stages}_{context.job[:12]}_e"
        found = database.rows(
            "SELECT tablename::text FROM pg_tables WHERE schemaname = ? AND starts_with(tablename::text, ?)",
            self._schema,
            prefix,
        )
        epochs = ((name, name.removeprefix(prefix).partition("_")[0]) for (name,) in found)
        return [
            f"{_quoted(self._schema)}.{_quoted(name)}"
            for name, epoch in epochs
            if epoch.isdigit() and int(epoch) < context.epoch
        ]


def _drop(database: Database, stages: Sequence[str]) -> None:
    """Drop stages that are not needed any more. A failure is only logged: the batch is written, and a later driver
    drops what is left. A task that still writes into one holds a lock on it.
    """
    for stage in stages:
        try:
            with database.transaction(_STAGE_LOCK_SECONDS):
                database.execute(f"DROP TABLE IF EXISTS {stage}")
        except (Py4JError, ConnectionError):
            _log.warning("stage %s could not be dropped, a later driver drops it", stage)


def _manifest(table: str, context: BatchContext, rows: int) -> dict[str, Any]:
    return {"sink": SINK, "table": table, "batch": context.batchId, "rows": rows}


def _own(manifest: Any, table: str) -> Iterator[dict[str, Any]]:
    """Yield what this sink returned for earlier batches, also from within the value of a function that calls several
    sinks.
    """
    if isinstance(manifest, dict) and manifest.get("sink") == SINK:
        if manifest.get("table") == table:
            yield manifest
    elif isinstance(manifest, dict | list):
        for each in manifest.values() if isinstance(manifest, dict) else manifest:
            yield from _own(each, table)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
