"""State on the heap and state in a store, both against one plain model: whatever is done, at whatever version.

Each run plays the same examples; MILEPOST_EXPLORE_STATE=10 plays ten times as many, and others each time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from milepost.state.coders import Utf8Coder
from milepost.state.dialects.beam import (
    HeapTable,
    StateInternalsFactory,
    StateNamespaces,
    StateTable,
    TimeDomain,
    TimerData,
    TimerInternalsFactory,
    TimestampedValue,
)
from milepost.state.errors import InvalidUse
from milepost.state.store import FileStateStoreProvider, MemoryEngine, MemoryFiles, ProviderSettings, StateStoreId
from milepost.state.store.engines.rocksdb import RocksDBEngines
from tests.client.state.dialects.beam.conftest import WINDOWS, at, window
from tests.client.state.dialects.beam.test_contract import (
    BAG,
    EARLIEST,
    LIST,
    LONGEST,
    MAP,
    MULTIMAP,
    SET,
    SUM,
    VALUE,
    longest,
)
from tests.client.state.support.internals_model import EMPTY, InternalsModel, Refused

TAGS: dict[str, Any] = {tag.kind.value: tag for tag in (VALUE, BAG, SET, MAP, MULTIMAP, LIST, SUM, LONGEST, EARLIEST)}
NAMESPACES = [
    StateNamespaces.global_namespace(),
    *(StateNamespaces.window(WINDOWS, window(*times)) for times in ((0, 5), (2, 5), (1, 8))),
    StateNamespaces.window_and_trigger(WINDOWS, window(2, 5), 1),
]
DOMAINS = {
    TimeDomain.EVENT_TIME: ("advance_input_watermark", "remove_next_event_timer"),
    TimeDomain.PROCESSING_TIME: ("advance_processing_time", "remove_next_processing_timer"),
    TimeDomain.SYNCHRONIZED_PROCESSING_TIME: (
        "advance_synchronized_processing_time",
        "remove_next_synchronized_processing_timer",
    ),
}

keys = st.sampled_from(["", "a", "ab"])
namespaces = st.sampled_from(NAMESPACES)
windows = st.sampled_from(NAMESPACES[1:4])
words = st.sampled_from(["", "x", "xy", "y\0"])
numbers = st.integers(-3, 3)
times = st.integers(0, 6).map(at)
places = st.tuples(keys, namespaces)


class System:
    """The real thing over one table."""

    def __init__(self, table: StateTable) -> None:
        self.table = table
        self.states = StateInternalsFactory(table, Utf8Coder())
        self.timers = TimerInternalsFactory(table, Utf8Coder(), WINDOWS)
        self.lookups: list[Any] = []

    def cell(self, place: tuple[Any, Any], kind: str) -> Any:
        return self.states.state_internals_for_key(place[0]).state(place[1], TAGS[kind])

    def content(self, place: tuple[Any, Any, str]) -> Any:
        """Return the content of a cell as the model has it."""
        cell, kind = self.cell(place[:2], place[2]), place[2]
        empty = cell.is_empty().read()
        if kind == "map":
            found: Any = dict(cell.entries().read())
        elif kind == "multimap":
            found = {key: list(cell.get(key).read()) for key in cell.keys().read()}
            assert list(cell.entries().read()) == [(key, value) for key in found for value in found[key]]
        elif kind == "ordered list":
            found = [(one.timestamp, one.value) for one in cell.read()]
        elif kind in ("bag", "set"):
            found = {"bag": list, "set": set}[kind](cell.read())
        else:
            found = None if empty else cell.read()
        assert empty == (found == EMPTY[kind]())
        return found


class Machine(RuleBasedStateMachine):
    """State in a store and on the heap, whose driver may go back to any version."""

    engine = "heap"

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        engines: Any = (
            MemoryEngine if self.engine == "heap" else RocksDBEngines(self.directory / "cache", memory_bytes=1 << 23)
        )
        self.settings = ProviderSettings(engines=engines, min_deltas_for_snapshot=2, maintenance_interval=None)
        self.files = MemoryFiles()
        self.provider = self.opened()
        self.commits: list[tuple[int, str | None]] = [(0, None)]
        self.models, self.heaps = [InternalsModel()], [HeapTable()]

    def opened(self) -> FileStateStoreProvider:
        provider = FileStateStoreProvider(self.files, self.settings)
        provider.init(StateStoreId(0, 0))
        return provider

    def teardown(self) -> None:
        self.provider.close()
        shutil.rmtree(self.directory)

    @initialize()
    def begin(self) -> None:
        self.go_on_from(0)

    def go_on_from(self, number: int) -> None:
        """Open a version, of which all three have what they had when it was committed."""
        self.model = self.models[number].copy()
        self.store = self.provider.get_store(*self.commits[number])
        self.systems = [System(deepcopy(self.heaps[number])), System(self.store)]
        self.seen_before: list[Any] = []

    def agree(self) -> None:
        for system in self.systems:
            for key in ("", "a", "ab"):
                for namespace in NAMESPACES:
                    for kind in TAGS:
                        place = (key, namespace, kind)
                        assert system.content(place) == self.model.get(place), place
                assert system.states.state_internals_for_key(key).earliest_watermark_hold() == (
                    self.model.earliest_hold(key)
                )
            assert system.timers.current_input_watermark_time() == self.model.watermark
            for domain in TimeDomain:
                waiting = [one.timestamp for one in self.model.timers.values() if one.domain is domain]
                assert system.timers.next_timer(domain) == min(waiting, default=None)

    def on_cell(self, place: Any, kind: str, real: Callable[[Any], Any], expected: Any, content: Any) -> None:
        """Do something to a cell, which then has this content, and compare what came back."""
        for system in self.systems:
            assert real(system.cell(place, kind)) == expected
        self.model.set((*place, kind), content)
        for system in self.systems:
            assert system.content((*place, kind)) == content

    def had(self, place: Any, kind: str) -> Any:
        return deepcopy(self.model.get((*place, kind)))

    @rule(place=places, word=words)
    def write(self, place: Any, word: str) -> None:
        self.on_cell(place, "value", lambda cell: cell.write(word), None, word)

    @rule(place=places, word=words)
    def add_to_bag(self, place: Any, word: str) -> None:
        self.on_cell(place, "bag", lambda cell: cell.add(word), None, [*self.had(place, "bag"), word])

    @rule(place=places, word=words, how=st.sampled_from(["add", "add_if_absent", "remove", "contains"]))
    def use_set(self, place: Any, word: str, how: str) -> None:
        had = self.had(place, "set")
        if how in ("add", "remove"):
            self.on_cell(
                place,
                "set",
                lambda cell: getattr(cell, how)(word),
                None,
                had | {word} if how == "add" else had - {word},
            )
        elif how == "contains":
            self.on_cell(place, "set", lambda cell: cell.contains(word).read(), word in had, had)
        else:
            self.on_cell(place, "set", lambda cell: cell.add_if_absent(word).read(), word not in had, had | {word})

    @rule(place=places, word=words, number=numbers, how=st.sampled_from(["put", "put_if_absent", "remove", "get"]))
    def use_map(self, place: Any, word: str, number: int, how: str) -> None:
        had = self.had(place, "map")
        before = had.get(word)
        if how == "put":
            self.on_cell(place, "map", lambda cell: cell.put(word, number), None, {**had, word: number})
        elif how == "put_if_absent":
            self.on_cell(
                place, "map", lambda cell: cell.put_if_absent(word, number).read(), before, {word: number, **had}
            )
        elif how == "get":
            self.on_cell(place, "map", lambda cell: cell.get_or_default(word, 9).read(), had.get(word, 9), had)
        else:
            had.pop(word, None)
            self.on_cell(place, "map", lambda cell: cell.remove(word), None, had)

    @rule(place=places, word=words, number=numbers, how=st.sampled_from(["put", "put", "remove", "contains"]))
    def use_multimap(self, place: Any, word: str, number: int, how: str) -> None:
        had = self.had(place, "multimap")
        if how == "contains":
            self.on_cell(place, "multimap", lambda cell: cell.contains(word).read(), word in had, had)
        elif how == "put":
            had.setdefault(word, []).append(number)
            self.on_cell(place, "multimap", lambda cell: cell.put(word, number), None, had)
        else:
            had.pop(word, None)
            self.on_cell(place, "multimap", lambda cell: cell.remove(word), None, had)

    @rule(place=places, word=words, later=st.booleans())
    def look_up(self, place: Any, word: str, later: bool) -> None:
        for system in self.systems:
            lookup = system.cell(place, "map").get(word)
            system.lookups.append(lookup.read_later() if later else lookup)
        self.seen_before.append(self.model.get((*place, "map")).get(word))

    @rule(place=places, kind=st.sampled_from(["value", "combining", "reducing", "watermark hold"]))
    def announce(self, place: Any, kind: str) -> None:
        for system in self.systems:
            system.cell(place, kind).read_later()

    @rule(data=st.data())
    def read_what_was_looked_up(self, data: st.DataObject) -> None:
        if self.seen_before:
            number = data.draw(st.integers(0, len(self.seen_before) - 1))
            expected = self.seen_before.pop(number)
            assert [system.lookups.pop(number).read() for system in self.systems] == [expected] * 2

    @rule(place=places, time=times, word=words)
    def add_to_list(self, place: Any, time: Any, word: str) -> None:
        content = sorted([*self.had(place, "ordered list"), (time, word)], key=lambda one: one[0])
        self.on_cell(place, "ordered list", lambda cell: cell.add(TimestampedValue(word, time)), None, content)

    @rule(place=places, start=times, end=times, clear=st.booleans())
    def range_of_list(self, place: Any, start: Any, end: Any, clear: bool) -> None:
        had = self.had(place, "ordered list")
        if clear:
            left = [one for one in had if not start <= one[0] < end]
            self.on_cell(place, "ordered list", lambda cell: cell.clear_range(start, end), None, left)
        else:
            found = [TimestampedValue(value, time) for time, value in had if start <= time < end]
            self.on_cell(place, "ordered list", lambda cell: list(cell.read_range(start, end)), found, had)

    @rule(place=places, number=numbers, accumulator=st.booleans())
    def combine(self, place: Any, number: int, accumulator: bool) -> None:
        total = (self.had(place, "combining") or 0) + number
        self.on_cell(
            place,
            "combining",
            lambda cell: cell.add_accum([number]) if accumulator else cell.add(number),
            None,
            total,
        )

    @rule(place=places, word=words)
    def reduce(self, place: Any, word: str) -> None:
        had = self.had(place, "reducing")
        self.on_cell(place, "reducing", lambda cell: cell.add(word), None, word if had is None else longest(had, word))

    @rule(place=places, time=times)
    def hold(self, place: Any, time: Any) -> None:
        had = self.had(place, "watermark hold")
        self.on_cell(place, "watermark hold", lambda cell: cell.add(time), None, min(had or time, time))

    @rule(place=places, kind=st.sampled_from(list(TAGS)))
    def clear(self, place: Any, kind: str) -> None:
        self.on_cell(place, kind, lambda cell: cell.clear(), None, EMPTY[kind]())

    @rule(place=places)
    def clear_namespace(self, place: Any) -> None:
        self.model.clear(*place)
        for system in self.systems:
            system.states.state_internals_for_key(place[0]).clear(place[1])

    @rule(key=keys, before=windows)
    def clear_windows_before(self, key: str, before: Any) -> None:
        self.model.clear_windows_before(key, before)
        for system in self.systems:
            system.states.state_internals_for_key(key).clear_windows_before(before)

    def same(self, expected: Callable[[], Any], real: Callable[[System], Any]) -> None:
        """Do the same to all three, and compare what comes back, or that all refuse it."""
        try:
            found = expected()
        except Refused:
            for system in self.systems:
                with pytest.raises(InvalidUse):
                    real(system)
        else:
            assert [real(system) for system in self.systems] == [found] * 2

    @rule(place=places, id=words, time=times, output=times, domain=st.sampled_from(TimeDomain))
    def set_timer(self, place: Any, id: str, time: Any, output: Any, domain: TimeDomain) -> None:
        self.set_timer_at(place, TimerData(id, place[1], time, domain, output))

    def set_timer_at(self, place: Any, timer: TimerData) -> None:
        self.same(
            lambda: self.model.set_timer(place[0], timer),
            lambda system: system.timers.timer_internals_for_key(place[0]).set_timer(timer),
        )

    @rule(place=places, id=words)
    def delete_timer(self, place: Any, id: str) -> None:
        self.same(
            lambda: self.model.delete_timer(place[0], place[1], id),
            lambda system: system.timers.timer_internals_for_key(place[0]).delete_timer(place[1], id),
        )

    @rule(domain=st.sampled_from(TimeDomain), to=times)
    def advance(self, domain: TimeDomain, to: Any) -> None:
        name = DOMAINS[domain][0]
        self.same(lambda: self.model.advance(domain, to), lambda system: getattr(system.timers, name)(to))

    @rule(
        domain=st.sampled_from(TimeDomain),
        key=st.none() | keys,
        sets=st.lists(st.none() | st.tuples(places, words, times), min_size=1, max_size=5),
    )
    def fire(self, domain: TimeDomain, key: str | None, sets: list[Any]) -> None:
        """Fire several timers, and set others between two of them."""

        def real(system: System) -> Any:
            queue: Any = system.timers if key is None else system.timers.timer_internals_for_key(key)
            found = getattr(queue, DOMAINS[domain][1])()
            return found if key is None or found is None else (key, found)

        for one in sets:
            self.same(lambda: self.model.remove_next(domain, key), real)
            if one is not None:
                place, id, time = one
                self.set_timer_at(place, TimerData(id, place[1], time, domain, time))

    @rule()
    def commit(self) -> None:
        self.agree()
        version = self.store.commit()
        self.commits.append((version, self.store.checkpoint_info.id))
        self.models.append(self.model.copy())
        heap: Any = self.systems[0].table
        self.heaps.append(deepcopy(heap))
        self.go_on_from(len(self.commits) - 1)
        self.agree()

    @rule(data=st.data(), restart=st.booleans(), maintain=st.booleans())
    def go_back(self, data: st.DataObject, restart: bool, maintain: bool) -> None:
        """Drop what was not committed, and go on from any version, with what is loaded or in another process."""
        self.store.abort()
        if maintain:
            self.provider.do_maintenance()
        if restart:
            self.provider.close()
            self.provider = self.opened()
        self.go_on_from(data.draw(st.integers(0, len(self.commits) - 1)))
        self.agree()


@pytest.mark.parametrize("engine", ["heap", "rocksdb"])
def test_state_is_as_its_model(engine: str) -> None:
    machine = type(f"Machine_{engine}", (Machine,), {"engine": engine})
    explored = int(os.environ.get("MILEPOST_EXPLORE_STATE", "0"))
    examples = {"heap": 25, "rocksdb": 5}[engine] * max(explored, 1)
    chosen = settings(max_examples=examples, stateful_step_count=40, deadline=None, derandomize=not explored)
    run_state_machine_as_test(machine, settings=chosen)
