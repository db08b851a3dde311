"""Encodes the values of state variables, which are rows of a schema, so that the schema may change later."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgpack

from milepost.state.errors import CoderError, StateError
from milepost.state.processors.types import JsonType, RowMaker, reader, tuples, widened, writer

MOST_SCHEMAS = 128
"""The schemas that a variable can have had: the number of the schema is one byte in front of each value."""


class RowCoder:
    """Turns rows into bytes by the last of the ``schemas``, and reads rows that were written by any of them.

    A schema is a struct in Spark's JSON form. A row is the number of its schema in one byte, and its values as a
    msgpack array. Fields are told apart by name: one that the older schema lacks is None, and one that it alone has is
    passed over. With ``numbered=False`` there is no such byte, and equal rows have equal bytes.
    """

    def __init__(self, schemas: Sequence[JsonType], *, rows: RowMaker = tuples, numbered: bool = True) -> None:
        newest = schemas[-1]
        self.names = [field["name"] for field in newest["fields"]]
        self._writers = [writer(field["type"]) for field in newest["fields"]]
        self._head = bytes((len(schemas) - 1,)) if numbered else b""
        self._readers = [_reader(schema, newest, rows) for schema in schemas]
        self._pack = msgpack.Packer(use_bin_type=True, autoreset=True).pack

    def encode(self, row: Any) -> bytes:
        """Turn a row (a tuple, list or ``Row``) into bytes. Raises `CoderError` for one that is not of the schema."""
        if not isinstance(row, (tuple, list)) or len(row) != len(self._writers):
            raise CoderError(
                f"the state takes a tuple of {len(self._writers)} values, {', '.join(self.names)}: {row!r}"
            )
        try:
            values = [write(value) for write, value in zip(self._writers, row, strict=True)]
            packed = self._pack(values if self._head else _canonical(values))
        except (ValueError, TypeError, OverflowError) as error:
            if isinstance(error, StateError):
                raise
            raise CoderError(f"the state cannot hold {row!r}: {error}") from error
        return self._head + bytes(packed)

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Turn bytes into the row they were made from. Raises `CoderError`."""
        try:
            if not self._head:
                return self._readers[-1](msgpack.unpackb(data, raw=False))
            return self._readers[data[0]](msgpack.unpackb(data[1:], raw=False))
        except (ValueError, IndexError, TypeError, msgpack.UnpackException) as error:
            raise CoderError(f"these bytes are no row of this state: {error}") from error


def _canonical(value: Any) -> Any:
    """Return what equal values have in common: one zero, and one NaN."""
    if isinstance(value, list):
        return [_canonical(one) for one in value]
    if isinstance(value, float):
        return math.nan if value != value else value + 0.0
    return value


def _reader(schema: JsonType, newest: JsonType, rows: RowMaker) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    places = {field["name"]: place for place, field in enumerate(schema["fields"])}
    parts = [(places.get(field["name"]), reader(field["type"], rows)) for field in newest["fields"]]
    if len(places) == len(parts) and [place for place, _ in parts] == list(range(len(parts))):
        reads = [read for _, read in parts]
        return lambda row: tuple(read(value) for read, value in zip(reads, row, strict=True))
    return lambda row: tuple(None if place is None else read(row[place]) for place, read in parts)


def fits(older: JsonType, newer: JsonType) -> str | None:
    """Say why rows of the older schema cannot be read by the newer one; None if they can."""
    before = {field["name"]: field["type"] for field in older["fields"]}
    for field in newer["fields"]:
        kind = before.get(field["name"], field["type"])
        if not widened(kind, field["type"]):
            return f"the field {field['name']} was {kind!r} and cannot become {field['type']!r}"
        if field["name"] not in before and not field.get("nullable", True):
            return f"the field {field['name']} is new, so it has to be nullable"
    return None
