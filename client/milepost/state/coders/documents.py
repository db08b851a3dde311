"""Coders of documents and rows, in JSON, msgpack and Arrow's format."""

from __future__ import annotations

import json
import math
from typing import Any

import msgpack
import pyarrow as pa

from milepost.state.coders.coder import Coder, expect
from milepost.state.errors import CoderError


class JsonCoder(Coder[Any]):
    """Encodes values that JSON supports, with sorted keys: None, booleans, numbers, text, lists, and dicts whose keys
    are text. Equal documents of equal types have the same bytes. Since 1, 1.0 and True are equal and are written
    differently, the coder is not marked as deterministic.
    """

    def encode(self, value: Any) -> bytes:
        try:
            _check_json(value)
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
            return text.encode()
        except (ValueError, RecursionError) as error:
            raise CoderError(f"JSON cannot hold this: {error}") from error

    def decode(self, data: bytes) -> Any:
        try:
            return json.loads(
                bytes(data).decode(), object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
            )
        except (ValueError, RecursionError) as error:
            raise CoderError(f"these bytes are no JSON: {error}") from error


class MsgpackCoder(Coder[Any]):
    """Encodes values that msgpack supports: those of JSON, bytes, and dicts with other keys than text. A dict keeps its
    order.
    """

    def encode(self, value: Any) -> bytes:
        try:
            return bytes(msgpack.packb(value, use_bin_type=True, strict_types=True))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise CoderError(f"msgpack cannot hold this: {error}") from error

    def decode(self, data: bytes) -> Any:
        try:
            return msgpack.unpackb(data, raw=False, strict_map_key=False)
        except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
            raise CoderError(f"these bytes are no msgpack: {error}") from error


def _check_json(value: Any) -> None:
    """Raise `CoderError` for a value that ``json`` would write as another type: tuples, subclasses, and keys that are
    not text.
    """
    kind = type(value)
    if kind is dict:
        for key, inner in value.items():
            if type(key) is not str:
                raise CoderError(f"a key of a JSON object is text, not {type(key).__name__}")
            _check_json(inner)
    elif kind is list:
        for inner in value:
            _check_json(inner)
    elif kind not in (str, int, float, bool, type(None)):
        raise CoderError(f"JSON has no {kind.__name__}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise CoderError("an object has a key twice")
    return found


def _no_constant(text: str) -> Any:
    raise CoderError(f"JSON has no {text}")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise CoderError("a number is too large for a float")
    return number


class ArrowRowCoder(Coder["dict[str, Any]"]):
    """Encodes a row of an Arrow schema, which is a dict with a value for each field. The bytes do not contain the
    schema, so reading needs the same schema. A row takes some 200 bytes beside its values, so this coder suits rows of
    many or nested fields, but not keys.
    """

    def __init__(self, schema: pa.Schema) -> None:
        """Raises `CoderError` if two fields of ``schema`` have the same name."""
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
