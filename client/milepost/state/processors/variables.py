"""The state variables of a processor: their descriptions, the changes that they allow between queries, and the encoding
of their values, which are rows of a schema.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgpack

from milepost.state.coders import Coder, CoderError
from milepost.state.errors import InvalidUse, StateError
from milepost.state.processors.types import JsonType, RowMaker, reader, tuples, widened, writer

_MOST_SCHEMAS = 128
"""The most schemas that a variable can have had. The first byte of a value is the number of its schema."""

KINDS = ("value", "list", "map")


class RowCoder(Coder[Any]):
    """Encodes rows by the last of the ``schemas``, and decodes rows that any of the schemas encoded.

    A schema is a struct in Spark's JSON form. The bytes of a row are the number of its schema in one byte, and its
    values as a msgpack array. Fields are matched by name: a field that an older schema lacks is None, and a field that
    only an older schema has is skipped. With ``numbered=False`` there is no schema byte, and equal rows have equal
    bytes.
    """

    def __init__(self, schemas: Sequence[JsonType], *, rows: RowMaker = tuples, numbered: bool = True) -> None:
        newest = schemas[-1]
        self.names = [field["name"] for field in newest["fields"]]
        self._writers = [writer(field["type"]) for field in newest["fields"]]
        self._head = bytes((len(schemas) - 1,)) if numbered else b""
        self._readers = [_reader(schema, newest, rows) for schema in schemas]
        self._pack = msgpack.Packer(use_bin_type=True, autoreset=True).pack

    def encode(self, row: Any) -> bytes:
        """Turn a row (a tuple, list or ``Row``) into bytes. Raises `CoderError` for a row of another schema."""
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
        """Turn bytes of `encode` back into the row, with the fields of the newest schema. Raises `CoderError` for other
        bytes.
        """
        try:
            if not self._head:
                return self._readers[-1](msgpack.unpackb(data, raw=False))
            return self._readers[data[0]](msgpack.unpackb(data[1:], raw=False))
        except (ValueError, IndexError, TypeError, msgpack.UnpackException) as error:
            raise CoderError(f"these bytes are no row of this state: {error}") from error


def _canonical(value: Any) -> Any:
    """Return a value that is equal to the given one and has the same bytes for all equal numbers: 0.0 stands for both
    zeros, and one NaN for all.
    """
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


def _fits(older: JsonType, newer: JsonType) -> str | None:
    """Return the reason why the newer schema cannot read rows that were written with the older one; None if it can."""
    before = {field["name"]: field["type"] for field in older["fields"]}
    for field in newer["fields"]:
        kind = before.get(field["name"], field["type"])
        if not widened(kind, field["type"]):
            return f"the field {field['name']} was {kind!r} and cannot become {field['type']!r}"
        if field["name"] not in before and not field.get("nullable", True):
            return f"the field {field['name']} is new, so it has to be nullable"
    return None


@dataclass(frozen=True)
class StateVariable:
    """A state variable of a processor, as ``init`` requests it. ``kind`` is ``value``, ``list`` or ``map``. ``schemas``
    has the schemas that its values have had, the newest last, as structs in Spark's JSON form. ``key`` is the schema of
    the keys of a map, None for other variables. ``ttl`` is in milliseconds, None for state that never expires.
    """

    name: str
    kind: str
    schemas: tuple[JsonType, ...]
    key: JsonType | None = None
    ttl: int | None = None

    @property
    def family(self) -> str:
        """The name of the column family that has the variable's values."""
        return f"{self.kind}:{self.name}"

    @property
    def expiry_family(self) -> str:
        """The name of the column family that lists the keys by the expiry of the variable's values."""
        return f"expiry:{self.name}"

    def to_json(self) -> dict[str, Any]:
        """Convert the variable, without its name, to JSON."""
        document: dict[str, Any] = {"kind": self.kind, "schemas": list(self.schemas)}
        if self.key is not None:
            document["key"] = self.key
        if self.ttl is not None:
            document["ttl"] = self.ttl
        return document

    @classmethod
    def from_json(cls, name: str, document: Mapping[str, Any]) -> StateVariable:
        """Read a variable from the JSON of `to_json`. Raises ``ValueError`` for an unknown kind, and ``KeyError`` for a
        missing field.
        """
        if document["kind"] not in KINDS:
            raise ValueError(f"there is no kind of state {document['kind']!r}")
        schemas = tuple(document["schemas"])
        return cls(name, document["kind"], schemas, document.get("key"), document.get("ttl"))


def evolved(before: Mapping[str, StateVariable], asked: Mapping[str, StateVariable]) -> dict[str, StateVariable]:
    """Return the state variables with which a query continues. ``before`` has the stored variables, and ``asked`` those
    that the query requests. A variable that the query does not request stays: only ``deleteIfExists`` removes it.
    Raises `InvalidUse` if a stored variable cannot change into the requested one.
    """
    found = dict(before)
    for name, variable in asked.items():
        older = before.get(name)
        found[name] = variable if older is None else _changed(older, variable)
    return found


def _changed(older: StateVariable, newer: StateVariable) -> StateVariable:
    where = f"the state {older.name!r}"
    if older.kind != newer.kind:
        raise InvalidUse(f"{where} is a {older.kind} and cannot become a {newer.kind}: choose another name")
    if (older.ttl is None) != (newer.ttl is None):
        raise InvalidUse(f"{where} cannot begin or cease to expire: choose another name")
    if older.key != newer.key:
        raise InvalidUse(f"{where} has entries by {_names(older.key)}, and cannot have them by {_names(newer.key)}")
    (schema,) = newer.schemas
    schemas = older.schemas
    if schema in schemas:  # also an early one: it becomes the last one, which new values are written with
        schemas = tuple(one for one in schemas if one != schema)
        if len(schemas) + 1 == len(older.schemas) and older.schemas[-1] == schema:
            return replace(older, ttl=newer.ttl)
    for one in older.schemas:
        why = _fits(one, schema)
        if why is not None:
            raise InvalidUse(
                f"{where} cannot take its new schema: {why}; if a release has stored a schema by mistake, milepost "
                "jobs restore takes the job back to a batch from before"
            )
    if len(older.schemas) == _MOST_SCHEMAS:
        raise InvalidUse(f"{where} has had {_MOST_SCHEMAS} schemas, which is the most there can be")
    return replace(older, schemas=(*older.schemas, schema), ttl=newer.ttl)


def _names(schema: JsonType | None) -> str:
    return "nothing" if schema is None else ", ".join(f"{field['name']} {field['type']}" for field in schema["fields"])
