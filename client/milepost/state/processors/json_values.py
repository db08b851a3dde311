"""Converts values of Spark's types into JSON, and the parts of a key back, for readers that are not written in
Python.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from milepost.state.errors import InvalidUse
from milepost.state.processors.types import JsonType

_MICROSECOND = timedelta(microseconds=1)


def json_of(kind: JsonType, value: Any) -> Any:
    """Return the JSON of a value that a `milepost.state.processors.types.reader` returned, with tuples as rows.

    Structs are objects, maps are lists of pairs, bytes are in base64, decimals are text and intervals whole numbers of
    microseconds. Dates and times are as in ISO 8601. A time without a zone is in this machine's zone, and is written in
    UTC. The numbers that JSON does not have are written as "NaN", "Infinity" and "-Infinity".
    """
    if value is None:
        return None
    if isinstance(kind, dict):
        if kind["type"] == "struct":
            return row_json(kind, value)
        if kind["type"] == "array":
            return [json_of(kind["elementType"], one) for one in value]
        return [[json_of(kind["keyType"], key), json_of(kind["valueType"], one)] for key, one in value.items()]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if isinstance(value, datetime):
        if kind == "timestamp":
            return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat() + "Z"
        return value.isoformat()
    return value.isoformat() if isinstance(value, date) else value


def row_json(kind: JsonType, row: Sequence[Any]) -> dict[str, Any]:
    """Return the JSON object of a row of a struct."""
    return {field["name"]: json_of(field["type"], one) for field, one in zip(kind["fields"], row, strict=True)}


def key_of(columns: Sequence[tuple[str, str]], given: Any) -> tuple[Any, ...]:
    """Return the key of these columns (names and types) from a JSON array. Raises `InvalidUse`."""
    if not isinstance(given, list) or len(given) != len(columns):
        shown = ", ".join(f"{name} {kind}" for name, kind in columns)
        raise InvalidUse(f"a key is a JSON array of {len(columns)}: {shown}")
    return tuple(
        None if part is None else _part(name, kind, part) for (name, kind), part in zip(columns, given, strict=True)
    )


def _part(name: str, kind: str, part: Any) -> Any:
    expected, read = _PARTS.get(kind, (int, int))
    if type(part) is not expected:
        raise InvalidUse(f"{name} of the key is of the type {kind}, and in JSON {_SHOWN[expected]}")
    try:
        return read(part)
    except (ValueError, binascii.Error) as error:
        raise InvalidUse(f"{name} of the key is no {kind}: {error}") from error


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    if found.tzinfo is None:
        raise ValueError("it lacks a zone, such as Z")
    return found


_SHOWN: dict[type, str] = {int: "a whole number", str: "text", bool: "true or false"}
_PARTS: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "string": (str, str),
    "binary": (str, lambda text: base64.b64decode(text, validate=True)),
    "boolean": (bool, bool),
    "date": (str, date.fromisoformat),
    "timestamp": (str, _time),
}
