"""Collects a processor's output as Arrow record batches of one schema. Output that is too large for the driver goes to
files in the storage of the state. The name of such a file contains a digest, which readers verify.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from milepost.state.errors import InvalidUse, StateDamaged, WriteUnknown
from milepost.state.store.files.contract import StateFiles

BATCH_ROWS = 10_000
_ATTEMPTS = 3


class Outputs:
    """Collects the output of a task in compressed Arrow streams of about ``part_bytes`` each, which are called
    parts.
    """

    def __init__(self, schema: pa.Schema, timezone: str, part_bytes: int) -> None:
        """``timezone`` is the time zone of the Spark session, which applies to times without a zone."""
        self._schema = schema
        self._names = schema.names
        self._zone = ZoneInfo(timezone)
        self._part_bytes = part_bytes
        self._columns: list[list[Any]] = [[] for _ in self._names]
        self._sink: pa.BufferOutputStream | None = None
        self._writer: Any = None
        self._nan_is_null = False
        self.rows = 0

    def add_frame(self, frame: Any) -> Iterator[bytes]:
        """Add a pandas frame, and iterate over the parts that it completes. Raises `InvalidUse` if its columns are not
        those of the schema.
        """
        if not hasattr(frame, "columns") or len(frame.columns) != len(self._names):
            raise InvalidUse(f"a processor has to put out frames with the columns {', '.join(self._names)}: {frame!r}")
        self._nan_is_null = True  # pandas writes a null in a column of numbers as NaN
        columns = frame.columns.tolist()
        if columns == self._names:  # fast, because most frames have these columns and a single row
            for place, (_, series) in enumerate(frame.items()):
                self._columns[place].extend(series.tolist())
            return self._added(len(frame))
        named = all(isinstance(column, str) for column in columns)
        if named and set(columns) != set(self._names):
            raise InvalidUse(
                f"the output has the columns {', '.join(columns)}, and should have {', '.join(self._names)}"
            )
        for place, name in enumerate(self._names):
            series = frame[name] if named else frame.iloc[:, place]
            self._columns[place].extend(series.tolist())
        return self._added(len(frame))

    def add_row(self, row: Any) -> Iterator[bytes]:
        """Add a row, and iterate over the parts that it completes. Raises `InvalidUse` if its fields are not those of
        the schema.
        """
        if not isinstance(row, (tuple, list)) or len(row) != len(self._names):
            raise InvalidUse(f"a processor has to put out rows with the fields {', '.join(self._names)}: {row!r}")
        fields = getattr(row, "__fields__", None)
        values = [row[name] for name in self._names] if fields and set(fields) == set(self._names) else row
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)
        return self._added(1)

    def end(self) -> Iterator[bytes]:
        """Complete the last part, and iterate over it; yield nothing if nothing is left. Nothing can be added
        afterwards.
        """
        self._flush()
        if self._writer is not None:
            yield self._part()

    def _added(self, rows: int) -> Iterator[bytes]:
        self.rows += rows
        if len(self._columns[0]) >= BATCH_ROWS:
            self._flush()
            if self._sink is not None and self._sink.tell() >= self._part_bytes:
                yield self._part()

    def _flush(self) -> None:
        if not self._columns[0]:
            return
        if self._sink is None:
            self._sink = pa.BufferOutputStream()
            self._writer = pa.ipc.new_stream(
                self._sink, self._schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
            )
        arrays = [self._array(column, field) for column, field in zip(self._columns, self._schema, strict=True)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._columns = [[] for _ in self._names]

    def _part(self) -> bytes:
        self._writer.close()
        assert self._sink is not None
        content: bytes = self._sink.getvalue().to_pybytes()
        self._sink = self._writer = None
        return content

    def _array(self, values: list[Any], field: pa.Field) -> pa.Array:
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            values = [self._zoned(value) for value in values]
        try:
            return pa.array(values, field.type, from_pandas=self._nan_is_null)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
            return self._cast(values, field, error)

    @staticmethod
    def _cast(values: list[Any], field: pa.Field, first: Exception) -> pa.Array:
        """Convert the values of a column to the type of ``field`` as Spark does: a whole number becomes text or a
        floating-point number, if its value stays the same. Raises `InvalidUse` with the text of ``first``, the error of
        the first attempt, if that is impossible.
        """
        try:
            return pa.array(values, from_pandas=True).cast(field.type)
        except (pa.ArrowException, TypeError, ValueError):
            raise InvalidUse(f"the output column {field.name} cannot be {field.type}: {first}") from first

    def _zoned(self, value: Any) -> Any:
        if isinstance(value, datetime) and value == value and value.tzinfo is None:  # NaT is not equal to itself
            return value.replace(tzinfo=self._zone)
        return value


Add = Callable[[Any], Iterator[bytes]]


def output_directory(name: str) -> str:
    """Return the directory for those outputs of the state ``name`` that are too large to be sent to the driver."""
    return f"outputs/{name}"


def store_output(files: StateFiles, name: str, batch: int, partition: int, part: bytes) -> str:
    """Store a part of a partition's output for a batch as a new file, and return the path, which ends with the part's
    digest. ``name`` is that of the state. If the outcome of a write is unknown, the part is written again under another
    path; the first file is then never read. Raises `StateError`.
    """
    digest = hashlib.sha256(part).hexdigest()
    for attempt in range(_ATTEMPTS):
        path = f"{output_directory(name)}/{batch}_{partition}_{secrets.token_hex(16)}_{digest}.arrow"
        try:
            files.create(path, part)
        except WriteUnknown:
            if attempt + 1 == _ATTEMPTS:
                raise
        else:
            return path
    raise AssertionError("unreachable")


def read_output(files: StateFiles, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Iterate over the record batches of the outputs that `store_output` stored under ``paths``. Raises `StateDamaged`
    for a file whose content does not match the digest in its name, and `FilesError`.
    """
    for path in paths:
        content = b"".join(iter(_Reading(files, path), b""))
        if not path.endswith(f"_{hashlib.sha256(content).hexdigest()}.arrow"):
            raise StateDamaged(path, "its digest differs")
        with pa.ipc.open_stream(content) as stream:
            yield from stream


class _Reading:
    def __init__(self, files: StateFiles, path: str) -> None:
        self._files, self._path, self._at = files, path, 0

    def __call__(self) -> bytes:
        found = self._files.read(self._path, self._at, 1 << 24)
        self._at += len(found)
        return found
