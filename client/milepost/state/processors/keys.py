"""Encodes grouping keys as bytes that Spark SQL can compute too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from milepost.state.errors import CoderError, InvalidUse
from milepost.state.processors.types import JsonType, reader, tuples, writer

_NUMBERS = {"byte", "short", "integer", "long", "boolean", "date", "timestamp"}
_TEXTS = {"string", "binary"}
_WIDTH = 8
_OFFSET = 1 << 63


class GroupingKey:
    """The columns by which a frame is grouped, and the encoding of their values as one key.

    A null is encoded as the byte 0. Any other value is the byte 1, and then a number in eight bytes, the highest first
    and with the sign bit inverted; or, for text and byte strings, the length in four bytes and the bytes. Dates are in
    days, times in microseconds. No key is a prefix of another.
    """

    def __init__(self, columns: Sequence[tuple[str, JsonType]]) -> None:
        """``columns`` has the name and the type of each column; the type is in Spark's JSON form. Raises `InvalidUse`
        for types that no key can have: floating point and decimal numbers, intervals, timestamps without a zone,
        composite types, and text with a collation.
        """
        if not columns:
            raise InvalidUse("a key has one column at least")
        self.columns = [(name, _plain(name, kind)) for name, kind in columns]
        self._writers = [writer(kind) for _, kind in self.columns]
        self._readers = [reader(kind, tuples) for _, kind in self.columns]

    def encode(self, key: Sequence[Any]) -> bytes:
        """Turn the values of a key's columns into bytes. Raises `CoderError` for a key that does not match the
        columns.
        """
        if not isinstance(key, (tuple, list)) or len(key) != len(self.columns):
            raise CoderError(f"a key is a tuple of {', '.join(name for name, _ in self.columns)}, not {key!r}")
        found = b""
        for (_, kind), write, value in zip(self.columns, self._writers, key, strict=True):
            written = write(value)
            if written is None:
                found += b"\0"
            elif kind in _NUMBERS:
                found += b"\1" + (int(written) + _OFFSET).to_bytes(_WIDTH, "big")
            else:
                try:
                    data = written.encode() if isinstance(written, str) else written
                except UnicodeEncodeError as error:
                    raise CoderError(f"the text of a key is no Unicode: {error}") from error
                found += b"\1" + len(data).to_bytes(4, "big") + data
        return found

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Turn bytes of `encode` back into the values of the key's columns. Raises `CoderError` for other bytes."""
        found: list[Any] = []
        place = 0
        for (_, kind), read in zip(self.columns, self._readers, strict=True):
            there, place = data[place : place + 1], place + 1
            if there == b"\0":
                found.append(None)
                continue
            if there != b"\1":
                raise CoderError("these bytes are no key of these columns")
            length = _WIDTH
            if kind in _TEXTS:
                length, place = int.from_bytes(data[place : place + 4], "big"), place + 4
            part, place = data[place : place + length], place + length
            if len(part) != length:
                raise CoderError("these bytes end within a key")
            found.append(self._value(kind, part, read))
        if place != len(data):
            raise CoderError("there are bytes behind the key")
        return tuple(found)

    @staticmethod
    def _value(kind: str, part: bytes, read: Any) -> Any:
        if kind == "binary":
            return part
        if kind == "string":
            try:
                return part.decode()
            except UnicodeDecodeError as error:
                raise CoderError(f"the text of a key is not UTF-8: {error}") from error
        number = int.from_bytes(part, "big") - _OFFSET
        return bool(number) if kind == "boolean" else read(number)

    def sql(self) -> str:
        """Return the Spark SQL expression that computes the bytes of `encode` from the columns of a row."""
        return f"concat({', '.join(_sql(name, kind) for name, kind in self.columns)})"


def _plain(name: str, kind: JsonType) -> str:
    if isinstance(kind, str):
        if re.match(r"(var)?char\(", kind):
            return "string"
        if kind in _NUMBERS or kind in _TEXTS:
            return kind
    shown = kind if isinstance(kind, str) else kind.get("type")
    raise InvalidUse(
        f"the column {name} is of the type {shown}, and no key can have that: cast it, to text for example"
    )


def _sql(name: str, kind: str) -> str:
    column = f"`{name.replace('`', '``')}`"
    if kind in _TEXTS:
        data = f"cast({column} AS binary)"
        written = f"unhex(lpad(hex(octet_length({data})), 8, '0')), {data}"
    else:
        number = {
            "date": f"unix_date({column})",
            "timestamp": f"unix_micros({column})",
        }.get(kind, f"cast({column} AS bigint)")
        written = f"unhex(lpad(hex(cast({number} AS bigint) ^ cast(-9223372036854775808 AS bigint)), 16, '0'))"
    return f"CASE WHEN {column} IS NULL THEN X'00' ELSE concat(X'01', {written}) END"
