"""The handle through which a processor reaches its state, with the interface of PySpark's
``StatefulProcessorHandle``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from milepost.state.errors import InvalidUse
from milepost.state.processors.current import Current, TimeMode
from milepost.state.processors.states import ListState, MapState, ValueState
from milepost.state.processors.timers import Timers
from milepost.state.processors.types import JsonType, RowMaker, tuples
from milepost.state.processors.variables import RowCoder, StateVariable

State = ValueState | ListState | MapState
S = TypeVar("S", bound=State)
SchemaParser = Callable[[str], JsonType]
"""Turns the text of a schema, such as ``count long``, into a struct in Spark's JSON form."""


class ProcessorHandle:
    """The handle of a task. The driver has found its variables before, by `declared`."""

    def __init__(self, current: Current, variables: Mapping[str, StateVariable], *, rows: RowMaker = tuples) -> None:
        """``variables`` are all state variables; ``rows`` makes the rows for structs inside of values."""
        self._current = current
        self._variables = variables
        self._rows = rows
        self._timers = Timers(current)
        self._open = True
        self.states: dict[str, State] = {}

    @property
    def timers(self) -> Timers:
        """The timers of all keys."""
        return self._timers

    def initialized(self) -> None:
        """Refuse further variables: ``init`` has returned."""
        self._open = False

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> ValueState:
        """Return the state of this name: one row for each key. Only ``init`` may call this."""
        del schema  # the driver has the schema
        variable = self._variable(stateName, "value", ttlDurationMs)
        return self._kept(stateName, ValueState(self._current, variable, self._coder(variable)))

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> ListState:
        """Return the state of this name: a list of rows for each key. Only ``init`` may call this."""
        del schema  # the driver has the schema
        variable = self._variable(stateName, "list", ttlDurationMs)
        return self._kept(stateName, ListState(self._current, variable, self._coder(variable)))

    def getMapState(
        self, stateName: str, userKeySchema: Any, valueSchema: Any, ttlDurationMs: int | None = None
    ) -> MapState:
        """Return the state of this name: a map from rows to rows for each key. Only ``init`` may call this."""
        del userKeySchema, valueSchema  # the driver has both schemas
        variable = self._variable(stateName, "map", ttlDurationMs)
        keys = RowCoder((variable.key,), rows=self._rows, numbered=False)
        return self._kept(stateName, MapState(self._current, variable, self._coder(variable), keys))

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Register a timer of the current key: ``handleExpiredTimer`` is called once it is later than this time."""
        self._timers.register(expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """Remove the timer of the current key at this time."""
        self._timers.delete(expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:
        """Iterate over the timers of the current key, including one that is firing."""
        return self._timers.list()

    def deleteIfExists(self, stateName: str) -> None:
        """Remove a state variable with all its values. Only ``init`` may call this; the driver has removed the variable
        before.
        """
        self._check_open("removed")
        if stateName in self.states:
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

    def _kept(self, name: str, state: S) -> S:
        self.states[name] = state
        return state


@dataclass
class _Declaring:
    """The driver's handle, which records the variables that ``init`` asks for."""

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
        RowCoder(variable.schemas)  # raises for types that no state can have
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
    """Return the state variables that a processor's ``init`` asks for, and the names of those that it removes.

    ``parse`` parses schemas that are given as text. Raises `InvalidUse`, `CoderError` for invalid variables.
    """
    handle = _Declaring(mode, parse)
    init(handle)
    return handle.variables, frozenset(handle.deleted)


def _check_map_key(name: str, schema: JsonType) -> None:
    if "'map'" in repr(schema):
        raise InvalidUse(f"the keys of the map state {name!r} cannot have maps in them")
    RowCoder((schema,))
