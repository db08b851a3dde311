"""Decides whether Spark's Parquet reader can read files of one schema with another schema without changing a value.

A frame over published files has one schema, while each file was written with its own. If a column's types differ, the
reader either fails or silently misreads values: an int read as a short loses its upper bits, and an int read as a date
becomes a day. Spark has a vectorized and a row-based reader, between which a setting of the session chooses; a type
must be safe with both. Schemas are in Spark's JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from milepost.errors import UnsafeQuery

_WIDER: Mapping[str, frozenset[str]] = {
    "byte": frozenset({"short", "integer", "long", "double"}),
    "short": frozenset({"integer", "long", "double"}),
    "integer": frozenset({"long", "double"}),
    "float": frozenset({"double"}),
    "date": frozenset({"timestamp_ntz"}),
    "string": frozenset({"binary"}),
}
"""For each type, the other types as which Spark's readers return its values unchanged;
tests/spark/output/test_schemas.py tries each pair.
"""
_DIGITS: Mapping[str, int] = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""The digits before the point that a decimal needs to read a whole number. Parquet files have no type below int."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def united(published: str, frame: str, advice: str) -> str:
    """Return the schema ``frame``, extended by the columns that only ``published`` has.

    Raises `UnsafeQuery`, which names the column, both types and the remedy (``advice``), if ``frame`` would misread
    rows of the schema ``published``. An empty ``published`` is unknown, and fits any.
    """
    if not published or published == frame:
        return frame
    try:
        return json.dumps(_united(json.loads(published), json.loads(frame), ()), separators=(",", ":"))
    except _Differs as error:
        raise UnsafeQuery(f"{error}: {advice}") from None


class _Differs(Exception):
    """Raised for two types of a column, if Spark does not read values of the first type unchanged as the second."""

    def __init__(self, old: Any, new: Any, path: tuple[str, ...]) -> None:
        super().__init__(
            f"column {'.'.join(path)} was published as {_kind(old)}, and Spark's readers do not read its values "
            f"rightly as {_kind(new)}"
        )


def _united(old: Any, new: Any, path: tuple[str, ...]) -> Any:
    if _plain(old) == _plain(new):
        return new
    kinds = (_kind(old), _kind(new))
    if kinds == ("struct", "struct"):
        return {**new, "fields": list(_fields(old["fields"], new["fields"], path))}
    if kinds == ("array", "array"):
        return {**new, "elementType": _united(old["elementType"], new["elementType"], (*path, "element"))}
    if kinds == ("map", "map"):
        value = _united(old["valueType"], new["valueType"], (*path, "value"))
        key = old["keyType"], new["keyType"]
        # A key's fields must be the same in both: if a field were dropped, two different keys could become equal.
        if _plain(key[0]) == _plain(key[1]) or (isinstance(key[0], str) and _widens(*key)):
            return {**new, "valueType": value}
        raise _Differs(*key, (*path, "key"))
    if _widens(old, new):
        return new
    raise _Differs(old, new, path)


def _fields(old: Sequence[Any], new: Sequence[Any], path: tuple[str, ...]) -> Iterator[Any]:
    """Yield the fields of ``new``, each united with the field of the same name in ``old``, and then the fields that
    only ``old`` has.
    """
    left = list(old)
    for field in new:
        known = _named(left, field["name"])
        if known is None:
            yield field
            continue
        left.remove(known)
        yield {**field, "type": _united(known["type"], field["type"], (*path, str(field["name"])))}
    yield from left


def _named(fields: Sequence[Any], name: str) -> Any:
    """Return the field that Spark reads for ``name``: the field of this name, else the one that differs only in
    case.
    """
    for same in (str, lambda each: str(each).lower()):
        for field in fields:
            if same(field["name"]) == same(name):
                return field
    return None


def _widens(old: Any, new: Any) -> bool:
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    if new in _WIDER.get(old, ()):
        return True
    was, becomes = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if becomes is None:
        return False
    precision, scale = int(becomes[1]), int(becomes[2])
    if was is None:
        return precision - scale >= _DIGITS.get(old, precision + 1)
    return scale >= int(was[2]) and precision - scale >= int(was[1]) - int(was[2])


def _plain(kind: Any) -> Any:
    """Return a type without nullability and metadata such as comments, which do not affect how values are read."""
    if isinstance(kind, dict):
        return {key: _plain(value) for key, value in kind.items() if key not in _SAYS_NOTHING}
    return [_plain(each) for each in kind] if isinstance(kind, list) else kind


_SAYS_NOTHING = ("nullable", "metadata", "containsNull", "valueContainsNull")


def _kind(kind: Any) -> str:
    return str(kind["type"]) if isinstance(kind, dict) else str(kind)
