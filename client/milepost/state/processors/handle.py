"""The handle that a ``StatefulProcessor`` gets in ``init``, and its value, list and map states, with the interfaces of
PySpark's ``StatefulProcessorHandle``, ``ValueState``, ``ListState`` and ``MapState``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from milepost.state.cells.families import CellFamily, ListFamily, ValueFamily
from milepost.state.cells.lifetime import ExpiryIndex, Lifetime
from milepost.state.cells.states import Elements, Entries, KeyedCell, OneValue
from milepost.state.errors import InvalidUse
from milepost.state.processors.timers import Current, TimeMode, Timers
from milepost.state.processors.types import JsonType, RowMaker, tuples
from milepost.state.processors.variables import RowCoder, StateVariable

Row = tuple[Any, ...]
SchemaParser = Callable[[str], JsonType]
"""Turns the text of a schema, such as ``count long``, into a struct in Spark's JSON form."""


class ValueState(OneValue[Row]):
    """One row for each key (``pyspark.sql.streaming.stateful_processor.ValueState``)."""

    def exists(self) -> bool:
        """Return whether the current key has a value."""
        return self._cell.get() is not None

    def get(self) -> Row | None:
        """Return the value of the current key, None if there is none."""
        return self._get()

    def update(self, newValue: Row) -> None:
        """Set the value of the current key."""
        self._put(_checked(newValue))


class ListState(Elements[Row]):
    """A list of rows for each key (``pyspark.sql.streaming.stateful_processor.ListState``). Each row expires by itself.
    Appending a row neither reads nor writes the other rows of the list.
    """

    def exists(self) -> bool:
        """Return whether the current key has a row."""
        return self._family.exists(self._place())

    def get(self) -> Iterator[Row]:
        """Iterate over the present rows of the current key, in the order in which they were added."""
        return self._get()

    def put(self, newState: list[Row]) -> None:
        """Replace all rows of the current key by ``newState``, which has at least one row."""
        self._set(_at_least_one(newState))

    def appendValue(self, newState: Row) -> None:
        """Add a row to the list of the current key."""
        self._add([_checked(newState)])

    def appendList(self, newState: list[Row]) -> None:
        """Add rows, at least one, to the list of the current key."""
        self._add(_at_least_one(newState))


class MapState(Entries[Row, Row]):
    """A map from rows to rows for each key (``pyspark.sql.streaming.stateful_processor.MapState``); each entry expires
    by itself.
    """

    def exists(self) -> bool:
        """Return whether the map of the current key has an entry."""
        return any(True for _ in self._cell.parts())

    def getValue(self, key: Row) -> Row | None:
        """Return the value of the entry with this key, None if there is none."""
        return self._get(_checked_key(key))

    def containsKey(self, key: Row) -> bool:
        """Return whether the map has an entry with this key."""
        return self._contains(_checked_key(key))

    def updateValue(self, key: Row, value: Row) -> None:
        """Set the value of the entry with this key."""
        self._put(_checked_key(key), _checked(value))

    def iterator(self) -> Iterator[tuple[Row, Row]]:
        """Iterate over the present entries, sorted by the bytes of their keys."""
        return ((self._keys.decode(key), self._values.decode(value)) for key, value in list(self._cell.parts()))

    def keys(self) -> Iterator[Row]:
        """Iterate over the keys of the entries."""
        return (self._keys.decode(key) for key, _ in list(self._cell.parts()))

    def values(self) -> Iterator[Row]:
        """Iterate over the values of the entries."""
        return (self._values.decode(value) for _, value in list(self._cell.parts()))

    def removeKey(self, key: Row) -> None:
        """Remove an entry, if it exists."""
        self._remove(_checked_key(key))


def _checked(row: Row) -> Row:
    if row is None:
        raise InvalidUse("a state has a value or none: clear it to have none")
    return row


def _checked_key(key: Row) -> Row:
    if key is None:
        raise InvalidUse("the key of an entry cannot be None")
    return key


def _at_least_one(rows: Iterable[Row] | None) -> list[Row]:
    found = [_checked(row) for row in rows or ()]
    if not found:
        raise InvalidUse("a list state takes one row at least: clear it to have none")
    return found


class ProcessorHandle:
    """The handle that a processor gets in a task (PySpark's ``StatefulProcessorHandle``). It gives out only the state
    variables that the driver found when it called the processor's ``init`` with `declared`.
    """

    def __init__(self, current: Current, variables: Mapping[str, StateVariable], *, rows: RowMaker = tuples) -> None:
        """``current`` has the state store and the current key. ``variables`` has all state variables by name. ``rows``
        makes the rows of structs within values.
        """
        self._current = current
        self._variables = variables
        self._rows = rows
        self._timers = Timers(current)
        self._open = True
        self._families: dict[str, CellFamily] = {}

    @property
    def timers(self) -> Timers:
        """The timers of all keys in the task's state store."""
        return self._timers

    def initialized(self) -> None:
        """Refuse requests for state variables from now on, since the processor's ``init`` has returned."""
        self._open = False

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> ValueState:
        """Return the value state of this name: one row for each key. Raises `InvalidUse` outside of ``init``."""
        del schema  # the driver has read the schema, and `variables` has it
        variable = self._variable(stateName, "value", ttlDurationMs)
        return ValueState(KeyedCell(self._values(variable), self._current.row), self._coder(variable))

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> ListState:
        """Return the list state of this name: a list of rows for each key. Raises `InvalidUse` outside of ``init``."""
        del schema  # the driver has read the schema, and `variables` has it
        variable = self._variable(stateName, "list", ttlDurationMs)
        family = ListFamily(self._current, variable.family, *self._lifetime(variable))
        self._families[stateName] = family
        return ListState(family, self._current.row, self._coder(variable))

    def getMapState(
        self, stateName: str, userKeySchema: Any, valueSchema: Any, ttlDurationMs: int | None = None
    ) -> MapState:
        """Return the map state of this name: a map of rows for each key. Raises `InvalidUse` outside of ``init``."""
        del userKeySchema, valueSchema  # the driver has read the schemas, and `variables` has them
        variable = self._variable(stateName, "map", ttlDurationMs)
        keys = RowCoder((variable.key,), rows=self._rows, numbered=False)
        return MapState(KeyedCell(self._values(variable), self._current.entries), keys, self._coder(variable))

    def clean(self, groups: Iterable[int]) -> None:
        """Remove the expired values of all state variables, for all keys in these key groups."""
        for family in self._families.values():
            family.clean_due(groups)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Register a timer of the current key. The first batch whose time is later than the timer calls
        ``handleExpiredTimer``.
        """
        self._timers.register(expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """Remove the timer of the current key at this time, if it exists."""
        self._timers.delete(expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:
        """Iterate over the times of the current key's timers, including a timer that is firing."""
        return self._timers.list()

    def deleteIfExists(self, stateName: str) -> None:
        """Accept that ``init`` removes a state variable; the driver has carried this out already. Raises `InvalidUse`
        outside of ``init``, and for a variable that the same ``init`` also requests.
        """
        self._check_open("removed")
        if stateName in self._families:
            raise InvalidUse(f"the state {stateName!r} is asked for and removed by the same init")

    def _variable(self, name: str, kind: str, ttl: int | None) -> StateVariable:
        self._check_open("asked for")
        variable = self._variables.get(name)
        if variable is None or (variable.kind, variable.ttl) != (kind, ttl):
            raise InvalidUse(
                f"the driver's init did not ask for a {kind} state {name!r}: init has to do the same wherever it runs"
            )
        return variable

    def _check_open(self, what: str) -> None:
        if not self._open:
            raise InvalidUse(f"a state variable can be {what} in init only")

    def _coder(self, variable: StateVariable) -> RowCoder:
        return RowCoder(variable.schemas, rows=self._rows)

    def _values(self, variable: StateVariable) -> ValueFamily:
        family = ValueFamily(self._current, variable.family, *self._lifetime(variable))
        self._families[variable.name] = family
        return family

    def _lifetime(self, variable: StateVariable) -> tuple[Lifetime, ExpiryIndex] | tuple[()]:
        if variable.ttl is None:
            return ()
        now = self._current.times.processing
        lifetime = Lifetime(variable.ttl, lambda: now, stamps_expiry=True)
        return lifetime, ExpiryIndex(self._current, variable.expiry_family)


@dataclass
class _Declaring:
    """The handle with which the driver calls a processor's ``init``: it records the state variables that ``init``
    requests and removes.
    """

    mode: TimeMode
    parse: SchemaParser
    variables: dict[str, StateVariable] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> None:
        self._declare(stateName, "value", schema, ttlDurationMs)

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> None:
        self._declare(stateName, "list", schema, ttlDurationMs)

    def getMapState(
        self, stateName: str, userKeySchema: Any, valueSchema: Any, ttlDurationMs: int | None = None
    ) -> None:
        self._declare(stateName, "map", valueSchema, ttlDurationMs, userKeySchema)

    def deleteIfExists(self, stateName: str) -> None:
        self.deleted.add(stateName)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        raise InvalidUse(f"init cannot register a timer at {expiryTimestampMs}: timers belong to a key")

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        raise InvalidUse(f"init cannot delete a timer at {expiryTimestampMs}: timers belong to a key")

    def listTimers(self) -> Iterator[int]:
        raise InvalidUse("init cannot list timers: they belong to a key")

    def _declare(self, name: str, kind: str, schema: Any, ttl: int | None, key: Any = None) -> None:
        if name in self.variables:
            raise InvalidUse(f"the state {name!r} was asked for already: each has a name of its own")
        if ttl is not None and self.mode is not TimeMode.PROCESSING:
            raise InvalidUse(f"the state {name!r} can expire with the time mode ProcessingTime only")
        if ttl is not None and ttl <= 0:
            raise InvalidUse(f"the ttlDurationMs of the state {name!r} must be more than 0, not {ttl}")
        keys = None if key is None else self._schema(name, key)
        variable = StateVariable(name, kind, (self._schema(name, schema),), keys, ttl)
        RowCoder(variable.schemas)  # raises CoderError for types that no state can have
        if keys is not None:
            _check_map_key(name, keys)
        self.variables[name] = variable

    def _schema(self, name: str, schema: Any) -> JsonType:
        document = self.parse(schema) if isinstance(schema, str) else json.loads(schema.json())
        if document.get("type") != "struct":
            raise InvalidUse(f"the schema of the state {name!r} has to be a struct")
        return {"type": "struct", "fields": [{**one, "metadata": {}} for one in document["fields"]]}


def declared(
    init: Callable[[Any], None], mode: TimeMode, parse: SchemaParser
) -> tuple[dict[str, StateVariable], frozenset[str]]:
    """Return the state variables that a processor's ``init`` requests, by name, and the names of the variables that it
    removes. ``parse`` turns the text of a schema into JSON. Raises `InvalidUse` or `CoderError` for a variable that
    state cannot have.
    """
    handle = _Declaring(mode, parse)
    init(handle)
    return handle.variables, frozenset(handle.deleted)


def _check_map_key(name: str, schema: JsonType) -> None:
    if "'map'" in repr(schema):
        raise InvalidUse(f"the keys of the map state {name!r} cannot have maps in them")
    RowCoder((schema,))
