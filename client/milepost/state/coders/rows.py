"""A coder of rows, by Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from milepost.state.coders.coder import Coder, expect
from milepost.state.errors import CoderError


class ArrowRowCoder(Coder["dict[str, Any]"]):
    """A row of an Arrow schema, as a dict with a value for each of its fields.

    The schema is not written with the row, so the same must be given for reading. A row takes some 200 bytes beside
    its values: this is for rows of many or of nested fields, not for keys.
    """

    def __init__(self, schema: pa.Schema) -> None:
        """``schema`` has the fields, each of another name."""
        if len(set(schema.names)) != len(schema.names):
            raise CoderError("two fields of the schema have the same name")
        self._schema = schema
        self._names = set(schema.names)

    def encode(self, value: dict[str, Any]) -> bytes:
        expect(value, dict, "a dict")
        if set(value) != self._names:
            raise CoderError("the row has other fields than its schema")
        try:
            batch = pa.RecordBatch.from_pylist([value], schema=self._schema)
            batch.validate(full=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise CoderError(f"the row does not fit its schema: {error}") from error
        if any(not field.nullable and value[field.name] is None for field in self._schema):
            raise CoderError("a field is None that must not be")
        return bytes(batch.serialize())

    def decode(self, data: bytes) -> dict[str, Any]:
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)
            batch.validate(full=True)
            rows = batch.to_pylist()
        except (pa.ArrowException, EOFError, OSError, TypeError, ValueError, OverflowError, MemoryError) as error:
            raise CoderError(f"these bytes are no row of this schema: {error}") from error
        if len(rows) != 1:
            raise CoderError(f"these bytes are {len(rows)} rows, not one")
        return dict(rows[0])
