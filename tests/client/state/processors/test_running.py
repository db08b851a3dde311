"""Processors over a store in memory: what they see of their state, timers and time, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from milepost.state.errors import CoderError, InvalidUse
from milepost.state.key_groups import KeyGroups
from milepost.state.processors import (
    Batch,
    BatchTimes,
    GroupingKey,
    StateVariable,
    TimeMode,
    declared,
    evolved,
    run_processor,
)
from milepost.state.store import FileStateStoreProvider, MemoryFiles, ProviderSettings, StateStoreId

TYPES = {"long": "long", "string": "string", "int": "integer", "double": "double"}
KEY = GroupingKey([("k", "string")])


def parse(text: str) -> dict[str, Any]:
    """The schema that a text such as ``a long, b string`` says, in Spark's JSON form."""
    pairs = [one.split() for one in text.split(",")]
    fields = [{"name": name, "type": TYPES[kind], "nullable": True, "metadata": {}} for name, kind in pairs]
    return {"type": "struct", "fields": fields}


@dataclass
class Job:
    """A processor's store, and what was put out, with rows as they are."""

    mode: TimeMode = TimeMode.NONE
    variables: dict[str, StateVariable] = field(default_factory=dict)
    version: int = 0

    def __post_init__(self) -> None:
        self.provider = FileStateStoreProvider(MemoryFiles(), ProviderSettings(maintenance_interval=None))
        self.provider.init(StateStoreId(0, 0))

    def batch(
        self,
        processor: Any,
        rows: Mapping[str, Sequence[Any]],
        *,
        now: int = 1000,
        watermark: int = 0,
        initial: Mapping[str, Sequence[Any]] | None = None,
    ) -> list[Any]:
        """Run a batch, and return what it puts out."""
        asked, _ = declared(processor.init, self.mode, parse)
        self.variables = evolved(self.variables, asked)
        groups = KeyGroups(8)
        batch = Batch(KEY, self.variables, groups, self.mode, BatchTimes(now, watermark))
        store = self.provider.get_store(self.version)
        outcomes = run_processor(processor, batch, store, range(8), _encoded(rows), _encoded(initial or {}))
        outputs = [outcome.output for outcome in outcomes]
        self.version = store.commit()
        return outputs

    def families(self) -> dict[str, int]:
        """How many keys each column family has."""
        store = self.provider.get_read_store(self.version)
        found = {}
        for family in store.all_column_family_names():
            scan = store.iterator_with_multi_values if family.startswith("list:") else store.iterator
            found[family] = len(list(scan(family)))
        store.release()
        return {family: count for family, count in found.items() if count}


def _encoded(rows: Mapping[str, Sequence[Any]]) -> list[tuple[bytes, Iterator[Any]]]:
    return [(KEY.encode((key,)), iter(values)) for key, values in rows.items()]


class Scripted:
    """Does with its state what a test says, and puts out what comes of that."""

    def __init__(
        self, init: Callable[[Any], Any], rows: Callable[..., Any], timer: Callable[..., Any] | None = None
    ) -> None:
        self._init, self._rows, self._timer = init, rows, timer
        self.closed = 0

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.state = self._init(handle)

    def handleInputRows(self, key: Any, rows: Any, _timerValues: Any) -> Iterator[Any]:
        for row in rows:
            yield self._rows(self, key, row)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        assert self._timer is not None
        yield self._timer(self, key, timerValues, expiredTimerInfo)

    def handleInitialState(self, _key: Any, initialState: Any, _timerValues: Any) -> None:
        self.state.update((initialState,))

    def close(self) -> None:
        self.closed += 1


def value(handle: Any) -> Any:
    return handle.getValueState("v", "n long")


def add(self: Any, key: Any, row: int) -> tuple[Any, ...]:
    before = self.state.get()
    self.state.update(((before[0] if before else 0) + row,))
    return (key[0], *self.state.get())


def test_a_value_is_there_in_the_next_batch_and_for_its_key_alone() -> None:
    job = Job()
    assert job.batch(Scripted(value, add), {"a": [1, 2], "b": [10]}) == [("a", 1), ("a", 3), ("b", 10)]
    assert job.batch(Scripted(value, add), {"a": [1], "c": [5]}) == [("a", 4), ("c", 5)]


def test_a_value_can_be_cleared() -> None:
    def act(self: Any, _key: Any, row: Any) -> Any:
        found = (self.state.exists(), self.state.get())
        self.state.clear() if row is None else self.state.update((row,))
        return found

    assert Job().batch(Scripted(value, act), {"a": [1, None, 2]}) == [(False, None), (True, (1,)), (False, None)]


def test_a_list_is_appended_to_put_anew_and_cleared() -> None:
    def act(self: Any, _key: Any, row: Any) -> Any:
        how, rows = row
        getattr(self.state, how)(*rows)
        return self.state.exists(), list(self.state.get())

    def script() -> Scripted:
        return Scripted(lambda handle: handle.getListState("l", "n long, s string"), act)

    job = Job()
    first = job.batch(script(), {"a": [("appendValue", [(1, "x")]), ("appendList", [[(2, "y"), (3, None)]])]})
    assert first == [(True, [(1, "x")]), (True, [(1, "x"), (2, "y"), (3, None)])]
    assert job.batch(script(), {"b": [("clear", [])], "a": [("put", [[(9, "z")]])]}) == [
        (False, []),
        (True, [(9, "z")]),
    ]
    assert job.batch(script(), {"a": [("clear", [])]}) == [(False, [])]
    for how, rows in (("put", [[]]), ("appendList", [[]]), ("appendValue", [None])):
        with pytest.raises(InvalidUse):
            job.batch(script(), {"a": [(how, rows)]})


def test_a_map_has_entries_for_its_key_alone() -> None:
    def act(self: Any, _key: Any, row: Any) -> Any:
        how, arguments = row
        found = getattr(self.state, how)(*arguments)
        return list(found) if isinstance(found, Iterator) else found

    def script() -> Scripted:
        return Scripted(lambda handle: handle.getMapState("m", "k string", "n long"), act)

    job = Job()
    job.batch(script(), {key: [("updateValue", [(one,), (n,)]) for n, one in enumerate("xyz")] for key in ("a", "ab")})
    outputs = job.batch(
        script(),
        {
            "a": [
                ("exists", []),
                ("getValue", [("y",)]),
                ("getValue", [("no",)]),
                ("containsKey", [("x",)]),
                ("removeKey", [("x",)]),
                ("containsKey", [("x",)]),
                ("iterator", []),
                ("keys", []),
                ("values", []),
                ("clear", []),
                ("exists", []),
            ],
            "ab": [("keys", [])],
        },
    )
    assert outputs == [
        *(True, (1,), None, True, None, False),
        [(("y",), (1,)), (("z",), (2,))],
        [("y",), ("z",)],
        [(1,), (2,)],
        *(None, False),
        [("x",), ("y",), ("z",)],
    ]


def test_initial_state_comes_before_the_rows_of_the_first_batch() -> None:
    assert Job().batch(Scripted(value, add), {"a": [1]}, initial={"a": [40], "b": [7]}) == [("a", 41)]


def test_what_has_a_ttl_is_gone_once_it_is_over_and_is_removed() -> None:
    def init(handle: Any) -> Any:
        return (
            handle.getValueState("v", "n long", 100),
            handle.getListState("l", "n long", 100),
            handle.getMapState("m", "k string", "n long", 100),
        )

    def act(self: Any, _key: Any, row: Any) -> Any:
        one, many, entries = self.state
        if row is not None:
            one.update((row,))
            many.appendValue((row,))
            entries.updateValue((f"e{row}",), (row,))
        return one.get(), [n for (n,) in many.get()], [k for (k,) in entries.keys()]  # noqa: SIM118

    job = Job(TimeMode.PROCESSING)

    def script() -> Scripted:
        return Scripted(init, act)

    assert job.batch(script(), {"a": [1]}, now=1000) == [((1,), [1], ["e1"])]
    assert job.batch(script(), {"a": [2]}, now=1050) == [((2,), [1, 2], ["e1", "e2"])]
    assert job.batch(script(), {"a": [None]}, now=1099) == [((2,), [1, 2], ["e1", "e2"])]
    assert job.batch(script(), {"a": [None]}, now=1100) == [((2,), [2], ["e2"])]
    assert job.families() == {
        **{"value:v": 1, "list:l": 1, "map:m": 1},
        **{"expiry:v": 1, "expiry:l": 1, "expiry:m": 1},
    }
    assert job.batch(script(), {"b": [None]}, now=1150) == [(None, [], [])]
    assert job.families() == {}


def test_timers_fire_in_the_order_of_their_times_once_it_is_later() -> None:
    def act(self: Any, _key: Any, row: int) -> Any:
        self.handle.registerTimer(row)
        return list(self.handle.listTimers())

    def fire(self: Any, key: Any, times: Any, info: Any) -> Any:
        self.handle.registerTimer(info.getExpiryTimeInMs() + 1)  # due, too, but in the next batch
        return key[0], info.getExpiryTimeInMs(), times.getCurrentProcessingTimeInMs(), list(self.handle.listTimers())

    job = Job(TimeMode.PROCESSING)

    def script() -> Scripted:
        return Scripted(value, act, fire)

    assert job.batch(script(), {"a": [500, 300, 300], "b": [400]}, now=300) == [
        *([500], [300, 500], [300, 500]),
        [400],
    ]
    assert job.batch(script(), {}, now=450) == [("a", 300, 450, [300, 301, 500]), ("b", 400, 450, [400, 401])]
    assert [output[:2] for output in job.batch(script(), {}, now=450)] == [("a", 301), ("b", 401)]
    assert job.families() == {"timers:key": 3, "timers:time": 3}


def test_event_time_timers_go_by_the_watermark_and_can_be_deleted() -> None:
    def act(self: Any, _key: Any, row: int) -> Any:
        self.handle.deleteTimer(-row) if row < 0 else self.handle.registerTimer(row)
        return list(self.handle.listTimers())

    def fire(_self: Any, _key: Any, times: Any, info: Any) -> Any:
        return info.getExpiryTimeInMs(), times.getCurrentWatermarkInMs()

    job = Job(TimeMode.EVENT)

    def script() -> Scripted:
        return Scripted(value, act, fire)

    assert job.batch(script(), {"a": [100, 200, -100]}, watermark=50) == [[100], [100, 200], [200]]
    assert job.batch(script(), {}, watermark=200) == []
    assert job.batch(script(), {}, watermark=201) == [(200, 201)]
    assert job.families() == {}


def test_a_processor_is_closed_once_and_its_state_is_for_its_keys_only() -> None:
    script = Scripted(value, add)
    Job().batch(script, {"a": [1]})
    assert script.closed == 1
    with pytest.raises(InvalidUse, match="belong to a key"):
        script.state.get()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda handle: handle.getValueState("late", "n long"), "in init only"),
        (lambda handle: handle.registerTimer(5), "no timers with the time mode None"),
        (lambda handle: handle.deleteIfExists("v"), "in init only"),
    ],
)
def test_what_a_handle_refuses_while_rows_are_handled(act: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(InvalidUse, match=message):
        Job().batch(Scripted(value, lambda self, _key, _row: act(self.handle)), {"a": [1]})


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (lambda handle: (value(handle), value(handle)), "asked for already"),
        (lambda handle: handle.getValueState("v", "n long", 10), "ProcessingTime only"),
        (lambda handle: handle.registerTimer(1), "timers belong to a key"),
    ],
)
def test_what_init_cannot_ask_for(init: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(InvalidUse, match=message):
        declared(init, TimeMode.NONE, parse)


def test_a_schema_may_gain_lose_and_widen_fields() -> None:
    job = Job()

    def script(schema: str, row: Any) -> Scripted:
        def act(self: Any, _key: Any, _given: Any) -> Any:
            before = self.state.get()
            if row is not None:
                self.state.update(row)
            return before

        return Scripted(lambda handle: handle.getValueState("v", schema), act)

    assert job.batch(script("a int, b string", (1, "x")), {"k": [0]}) == [None]
    assert job.batch(script("b string, a long, c double", None), {"k": [0]}) == [("x", 1, None)]
    assert job.batch(script("a long, c double", (2, 0.5)), {"k": [0]}) == [(1, None)]
    assert job.batch(script("a long, b string", None), {"k": [0]}) == [(2, None)]
    for schema in ("a string", "a int"):
        with pytest.raises(InvalidUse, match="cannot become"):
            job.batch(script(schema, None), {"k": [0]})


def test_a_field_that_comes_back_shows_what_was_not_written_since() -> None:
    """Fields are told apart by name, as by Avro's rules under Spark's own operator."""
    job = Job()

    def script(schema: str, written: dict[str, Any]) -> Scripted:
        def act(self: Any, key: Any, _given: Any) -> Any:
            before = self.state.get()
            if key[0] in written:
                self.state.update(written[key[0]])
            return before

        return Scripted(lambda handle: handle.getValueState("v", schema), act)

    keys = {"left": [0], "written": [0]}
    job.batch(script("a long, b string", {"left": (1, "old"), "written": (2, "old")}), keys)
    assert job.batch(script("a long", {"written": (3,)}), keys) == [(1,), (2,)]
    assert job.batch(script("a long, b string", {}), keys) == [(1, "old"), (3, None)]
    with pytest.raises(InvalidUse, match="cannot become"):
        job.batch(script("a long, b long", {}), keys)


def test_the_kind_of_a_state_cannot_change() -> None:
    job = Job()
    job.batch(Scripted(value, add), {"a": [1]})
    with pytest.raises(InvalidUse, match="is a value and cannot become a list"):
        job.batch(Scripted(lambda handle: handle.getListState("v", "n long"), add), {"a": [1]})


@pytest.mark.parametrize("wrong", [(1.5,), ("1",), (1 << 63,), (1, 2), 7])
def test_a_value_of_another_type_is_refused(wrong: Any) -> None:
    with pytest.raises(CoderError):
        Job().batch(Scripted(value, lambda self, _key, _row: self.state.update(wrong)), {"a": [1]})


def test_variables_come_back_from_json() -> None:
    def init(handle: Any) -> None:
        handle.getMapState("m", "k string", "n long", 5)
        handle.getListState("l", "n long")
        handle.deleteIfExists("old")

    asked, deleted = declared(init, TimeMode.PROCESSING, parse)
    assert deleted == {"old"}
    back = {name: StateVariable.from_json(name, json.loads(json.dumps(one.to_json()))) for name, one in asked.items()}
    assert back == asked
