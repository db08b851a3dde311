"""Converts values of Spark's types into values that msgpack supports, and back, to store them; and into JSON, for
readers that are not written in Python. A type is in Spark's JSON form, as ``DataType.jsonValue`` returns it: a name, or
a dict for a composite type.
"""

from __future__ import annotations

import base64
import binascii
import math
import operator
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from milepost.state.errors import CoderError, InvalidUse

JsonType = Any
"""A Spark type in its JSON form."""

RowMaker = Callable[[Sequence[str]], Callable[[Sequence[Any]], Any]]
"""A function that takes the names of fields and returns a function that makes a row of their values."""

Convert = Callable[[Any], Any]

_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_DAY_ZERO = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)

_EPOCH = datetime(1970, 1, 1)
_SECOND = 1_000_000
_CYCLE_YEARS = 400
_CYCLE_SECONDS = 146_097 * 24 * 60 * 60
"""The length of 400 years, after which the calendar repeats, with its weekdays and the rules of time zones."""

_FIRST_YEAR_ENDS = (datetime(2, 1, 1) - _EPOCH) // timedelta(seconds=1)
_LAST_YEAR_BEGINS = (datetime(9999, 1, 1) - _EPOCH) // timedelta(seconds=1)


def tuples(_names: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
    """Return a function that makes rows that are plain tuples, without names of fields (a `RowMaker`)."""
    return tuple


def writer(kind: JsonType) -> Convert:
    """Return a function that converts a value of this Spark type for msgpack. `writer` raises `CoderError` for a type
    that state cannot have. The returned function raises `CoderError` for a value of another type.
    """
    one = _writers(kind)
    return lambda value: None if value is None else one(value)


def reader(kind: JsonType, rows: RowMaker) -> Convert:
    """Return the inverse of the function that `writer` returns for this Spark type. ``rows`` makes the rows of
    structs.
    """
    one = _readers(kind, rows)
    return lambda value: None if value is None else one(value)


def widened(older: JsonType, newer: JsonType) -> bool:
    """Return whether a value of the older Spark type is also a value of the newer one, with the same encoding."""
    if older == newer:
        return True
    if older in _BITS and newer in _BITS:
        return _BITS[older] < _BITS[newer]
    return (older, newer) == ("float", "double")


def _writers(kind: JsonType) -> Convert:
    if isinstance(kind, dict):
        match kind["type"]:
            case "array":
                inner = writer(kind["elementType"])
                return lambda value: [inner(one) for one in _expect(value, (list, tuple), "a list")]
            case "map":
                key, item = writer(kind["keyType"]), writer(kind["valueType"])
                return lambda value: [[key(k), item(v)] for k, v in _expect(value, (dict,), "a dict").items()]
            case "struct":
                fields = kind["fields"]
                parts = [writer(field["type"]) for field in fields]
                names = [field["name"] for field in fields]
                return lambda value: [part(one) for part, one in zip(parts, _fields(value, names), strict=True)]
        raise CoderError(f"state cannot have the type {kind['type']!r}")
    if kind in _BITS:
        limit = 1 << (_BITS[kind] - 1)
        return lambda value: _whole(value, limit, kind)
    if kind.startswith("decimal"):
        precision, scale = _decimal_limits(kind)
        return lambda value: _decimal(_expect(value, (Decimal,), "a Decimal"), precision, scale)
    if kind.startswith("interval day") or re.match(r"interval (hour|minute|second)", kind):
        return lambda value: _expect(value, (timedelta,), "a timedelta") // _MICROSECOND
    if kind.startswith(("varchar", "char")):
        kind = "string"
    simple: dict[str, Convert] = {
        "string": lambda value: str(_expect(value, (str,), "text")),
        "double": _number,
        "float": _number,
        "boolean": _truth,
        "binary": lambda value: bytes(_expect(value, (bytes, bytearray), "bytes")),
        "date": lambda value: _expect(value, (date,), "a date").toordinal() - _DAY_ZERO,
        "timestamp": lambda value: _microseconds_of(_expect(value, (datetime,), "a datetime")),
        "timestamp_ntz": lambda value: _microseconds_of(
            _expect(value, (datetime,), "a datetime").replace(tzinfo=None), utc=True
        ),
        "void": lambda value: _expect(value, (), "None"),
    }
    if kind not in simple:
        raise CoderError(f"state cannot have the type {kind!r}")
    return simple[kind]


def _readers(kind: JsonType, rows: RowMaker) -> Convert:
    if isinstance(kind, dict):
        match kind["type"]:
            case "array":
                inner = reader(kind["elementType"], rows)
                return lambda value: [inner(one) for one in value]
            case "map":
                key, item = reader(kind["keyType"], rows), reader(kind["valueType"], rows)
                return lambda value: {key(k): item(v) for k, v in value}
            case _:
                parts = [reader(field["type"], rows) for field in kind["fields"]]
                make = rows([field["name"] for field in kind["fields"]])
                return lambda value: make([part(one) for part, one in zip(parts, value, strict=True)])
    if kind.startswith("decimal"):
        return Decimal
    if kind.startswith("interval"):
        return lambda value: timedelta(microseconds=value)
    special: dict[str, Convert] = {
        "date": lambda value: date.fromordinal(value + _DAY_ZERO),
        "timestamp": _local_datetime,
        "timestamp_ntz": lambda value: datetime.fromtimestamp(value // 1_000_000, timezone.utc).replace(
            microsecond=value % 1_000_000, tzinfo=None
        ),
    }
    return special.get(kind, lambda value: value)


def _expect(value: Any, kinds: tuple[type, ...], what: str) -> Any:
    if not isinstance(value, kinds):
        raise CoderError(f"the state takes {what} here, not {type(value).__name__}")
    return value


def _whole(value: Any, limit: int, kind: str) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise CoderError(f"the state takes a whole number here, not {type(value).__name__}") from error
    if not -limit <= number < limit:
        raise CoderError(f"{number} is too large for a field of the type {kind}")
    return number


def _decimal_limits(kind: str) -> tuple[int, int]:
    found = re.fullmatch(r"decimal\((\d+),(-?\d+)\)", kind)
    return (int(found[1]), int(found[2])) if found else (10, 0)


def _decimal(value: Decimal, precision: int, scale: int) -> str:
    """Return the text of a decimal number, rounded half up to the ``scale`` of its type, as in Spark. Raises
    `CoderError` for a number with too many digits.
    """
    try:
        rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, Context(prec=precision))
    except InvalidOperation as error:
        raise CoderError(f"{value} is too large for a decimal({precision},{scale})") from error
    if not rounded.is_finite():
        raise CoderError(f"the state takes a number here, not {value}")
    return str(rounded or abs(rounded))


def _number(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise CoderError(f"the state takes a number here, not {type(value).__name__}")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise CoderError(f"the state takes a number here, not {type(value).__name__}") from error


def _truth(value: Any) -> bool:
    # the truth types of numpy, by name, because numpy may not be installed
    if type(value) is not bool and type(value).__name__ not in ("bool", "bool_"):
        raise CoderError(f"the state takes True or False here, not {type(value).__name__}")
    return bool(value)


def _fields(value: Any, names: Sequence[str]) -> Sequence[Any]:
    if isinstance(value, dict):
        return [value.get(name) for name in names]
    if not isinstance(value, (tuple, list)) or len(value) != len(names):
        raise CoderError(f"the state takes a row of {len(names)} fields here, not {value!r}")
    return value


def _microseconds_of(value: datetime, *, utc: bool = False) -> int:
    """Return the microseconds since 1970. A datetime without a zone is in this machine's zone, or in UTC if ``utc``. A
    wall-clock time that a clock change skips is taken as after the change with ``fold=0``, and as before the change
    with ``fold=1``, as PEP 495 says. Raises `CoderError` for a value that is not a time, such as pandas' NaT.
    """
    try:
        # A plain datetime, because methods of subclasses differ: pandas.Timestamp takes a time without a zone as UTC.
        plain = datetime(value.year, value.month, value.day, value.hour, value.minute, value.second, fold=value.fold)
        wall = (plain - _EPOCH) // _MICROSECOND + value.microsecond
        if value.tzinfo is not None:
            return wall - (value.utcoffset() or timedelta()) // _MICROSECOND
        return wall if utc else _local_seconds(plain) * _SECOND + value.microsecond
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise CoderError(f"{value} is no point in time that can be stored: {error}") from error


def _local_datetime(microseconds: int) -> datetime:
    """Return the datetime without a zone, in this machine's zone, from which `_microseconds_of` computes these
    microseconds. Its ``fold`` tells apart the two times that a clock change repeats.
    """
    seconds, rest = divmod(microseconds, _SECOND)
    cycles = _cycles(seconds < _FIRST_YEAR_ENDS, seconds >= _LAST_YEAR_BEGINS)
    found = datetime.fromtimestamp(seconds + cycles * _CYCLE_SECONDS)
    return found.replace(year=found.year - cycles * _CYCLE_YEARS, microsecond=rest)


def _local_seconds(plain: datetime) -> int:
    cycles = _cycles(plain.year == 1, plain.year == datetime.max.year)
    inside = plain.replace(year=plain.year + cycles * _CYCLE_YEARS)
    return int(inside.timestamp()) - cycles * _CYCLE_SECONDS  # whole seconds, which a float represents exactly


def _cycles(first: bool, last: bool) -> int:
    """Return by how many cycles of 400 years, after which the calendar repeats, to move a time before Python converts
    it to or from local time: 1 for the first year that Python has, -1 for the last, else 0. The conversion also reads
    the day before and the day after, which these two years may lack.
    """
    return 1 if first else -1 if last else 0


_MICROSECOND = timedelta(microseconds=1)


def json_of(kind: JsonType, value: Any) -> Any:
    """Return the JSON of a value that a function of `reader` returned, with tuples as rows.

    Structs are objects, maps are lists of pairs, bytes are in base64, decimals are text, and intervals are whole
    numbers of microseconds. Dates and times have the form of ISO 8601. A time without a zone is in this machine's zone,
    and is written in UTC. Numbers that JSON lacks are "NaN", "Infinity" and "-Infinity".
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
    """Return a row of a struct as a JSON object. ``kind`` is the struct in Spark's JSON form."""
    return {field["name"]: json_of(field["type"], one) for field, one in zip(kind["fields"], row, strict=True)}


def key_of(columns: Sequence[tuple[str, str]], given: Any) -> tuple[Any, ...]:
    """Return the grouping key that a JSON array stands for. ``columns`` has the names and types of the key's columns.
    Raises `InvalidUse` for other JSON.
    """
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
