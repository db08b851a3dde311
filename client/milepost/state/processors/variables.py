"""Describes the state variables of a processor, and how they may change from one query to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from milepost.state.errors import InvalidUse
from milepost.state.processors.rows import MOST_SCHEMAS, fits
from milepost.state.processors.types import JsonType

KINDS = ("value", "list", "map")


@dataclass(frozen=True)
class StateVariable:
    """A state variable as a processor asks for it in ``init``.

    ``schemas`` has the schemas of its values (structs in Spark's JSON form), the newest last; those of a map's entries
    have ``key`` as the schema of their keys. ``ttl`` is in milliseconds, None for state that never expires.
    """

    name: str
    kind: str
    schemas: tuple[JsonType, ...]
    key: JsonType | None = None
    ttl: int | None = None

    @property
    def family(self) -> str:
        """The column family that has the values."""
        return f"{self.kind}:{self.name}"

    @property
    def expiry_family(self) -> str:
        """The column family that has the keys by when they expire."""
        return f"expiry:{self.name}"

    def to_json(self) -> dict[str, Any]:
        """Turn it into JSON."""
        document: dict[str, Any] = {"kind": self.kind, "schemas": list(self.schemas)}
        if self.key is not None:
            document["key"] = self.key
        if self.ttl is not None:
            document["ttl"] = self.ttl
        return document

    @classmethod
    def from_json(cls, name: str, document: Mapping[str, Any]) -> StateVariable:
        """Read it from its JSON."""
        if document["kind"] not in KINDS:
            raise ValueError(f"there is no kind of state {document['kind']!r}")
        schemas = tuple(document["schemas"])
        return cls(name, document["kind"], schemas, document.get("key"), document.get("ttl"))


def evolved(before: Mapping[str, StateVariable], asked: Mapping[str, StateVariable]) -> dict[str, StateVariable]:
    """Return the variables that a query goes on with, where ``before`` is what there is and ``asked`` what it wants.

    A variable that nobody asks for stays as it is: it is removed by ``deleteIfExists`` only. Raises `InvalidUse` for
    one that cannot become what is asked for.
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
    if schema in schemas:  # also one of long ago: what is written must be of the last
        schemas = tuple(one for one in schemas if one != schema)
        if len(schemas) + 1 == len(older.schemas) and older.schemas[-1] == schema:
            return replace(older, ttl=newer.ttl)
    for one in older.schemas:
        why = fits(one, schema)
        if why is not None:
            raise InvalidUse(f"{where} cannot take its new schema: {why}")
    if len(older.schemas) == MOST_SCHEMAS:
        raise InvalidUse(f"{where} has had {MOST_SCHEMAS} schemas, which is the most there can be")
    return replace(older, schemas=(*older.schemas, schema), ttl=newer.ttl)


def _names(schema: JsonType | None) -> str:
    return "nothing" if schema is None else ", ".join(f"{field['name']} {field['type']}" for field in schema["fields"])
