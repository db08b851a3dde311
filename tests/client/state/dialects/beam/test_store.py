"""State in a store: what comes back with a version, and what is read and written for each use of it."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from milepost.state.coders import Utf8Coder
from milepost.state.dialects.beam import (
    TIMESTAMP_MIN_VALUE,
    HeapTable,
    StateInternals,
    StateInternalsFactory,
    StateNamespaces,
    TimeDomain,
    TimerInternalsFactory,
)
from milepost.state.errors import StoreEnded
from milepost.state.store import StateStore
from milepost.state.store.engines.engine import EngineFactory
from tests.client.state.conftest import Opener
from tests.client.state.dialects.beam.conftest import NAMESPACE_1, NAMESPACE_2, WINDOWS, at, window
from tests.client.state.dialects.beam.test_contract import BAG, FILLED, LIST, MAP, MULTIMAP, SET, SUM, VALUE
from tests.client.state.dialects.beam.test_timers import timer


def opened_on(store: StateStore) -> tuple[StateInternals[str], TimerInternalsFactory[str]]:
    return (
        StateInternalsFactory(store, Utf8Coder()).state_internals_for_key("key"),
        TimerInternalsFactory(store, Utf8Coder(), WINDOWS),
    )


def test_a_version_has_all_state_and_timers_after_a_restart(opened: Opener, engines: EngineFactory) -> None:
    store = opened(engines=engines).get_store(0)
    internals, timers = opened_on(store)
    for tag, fill in FILLED.items():
        fill(internals.state(NAMESPACE_1, tag))
    timers.timer_internals_for_key("key").set_timer(timer("id", 5))
    timers.timer_internals_for_key("other").set_timer(timer("id", 6))
    timers.advance_input_watermark(at(4))
    timers.advance_output_watermark(at(3))
    timers.advance_processing_time(at(1000))
    assert store.commit() == 1

    second = opened(engines=engines).get_store(1)
    internals, timers = opened_on(second)
    assert not any(internals.state(NAMESPACE_1, tag).is_empty().read() for tag in FILLED)
    assert internals.state(NAMESPACE_1, VALUE).read() == "a"
    assert (timers.current_input_watermark_time(), timers.current_output_watermark_time()) == (at(4), at(3))
    assert timers.current_processing_time() == TIMESTAMP_MIN_VALUE, "a clock is that of its machine"
    timers.advance_input_watermark(at(7))
    found = [timers.remove_next_event_timer() for _ in range(3)]
    assert found == [("key", timer("id", 5)), ("other", timer("id", 6)), None]
    internals.clear(NAMESPACE_1)
    second.commit()

    for version, empty in ((1, False), (2, True)):
        store = opened(engines=engines).get_store(version)
        internals, timers = opened_on(store)
        assert {internals.state(NAMESPACE_1, tag).is_empty().read() for tag in FILLED} == {empty}
        assert timers.next_timer(TimeDomain.EVENT_TIME) == (None if empty else at(5))
        store.abort()


def test_what_is_aborted_is_gone(opened: Opener) -> None:
    provider = opened()
    store = provider.get_store(0)
    internals, _ = opened_on(store)
    internals.state(NAMESPACE_1, VALUE).write("a")
    store.commit()
    store = provider.get_store(1)
    internals, _ = opened_on(store)
    internals.state(NAMESPACE_1, VALUE).write("b")
    store.abort()
    assert opened_on(provider.get_store(1))[0].state(NAMESPACE_1, VALUE).read() == "a"


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_state_of_a_store_that_ended(opened: Opener, end: str) -> None:
    store = opened().get_store(0)
    internals, timers = opened_on(store)
    value, entries = internals.state(NAMESPACE_1, VALUE), internals.state(NAMESPACE_1, MAP)
    bag = internals.state(NAMESPACE_1, BAG)
    value.write("a")
    bag.add("a")
    get, read = entries.get("a"), bag.read()
    getattr(store, end)()
    of_key = timers.timer_internals_for_key("key")
    for refused in (
        value.read,
        lambda: value.write("b"),
        get.read,
        lambda: list(read),
        value.is_empty().read,
        lambda: entries.put("a", 1),
        lambda: internals.clear(NAMESPACE_1),
        lambda: of_key.set_timer(timer("id", 1)),
        lambda: timers.advance_input_watermark(at(1)),
        timers.remove_next_event_timer,
    ):
        with pytest.raises(StoreEnded):
            refused()


@pytest.fixture
def seen() -> Mock:
    """Return a table that remembers how it is used."""
    return Mock(wraps=HeapTable())


@pytest.fixture
def internals(seen: Mock) -> StateInternals[str]:
    found = StateInternalsFactory(seen, Utf8Coder()).state_internals_for_key("key")
    entries, elements = found.state(NAMESPACE_1, MAP), found.state(NAMESPACE_1, SET)
    for number in range(100):
        entries.put(str(number), number)
        elements.add(str(number))
    seen.reset_mock()
    return found


def calls(seen: Mock) -> list[str]:
    """Return what the table was asked for since the last time."""
    found = [name for name, _, _ in seen.mock_calls]
    seen.reset_mock()
    return found


def test_one_entry_and_one_element_read_and_write_one_key(seen: Mock, internals: StateInternals[str]) -> None:
    entries, elements = internals.state(NAMESPACE_1, MAP), internals.state(NAMESPACE_1, SET)
    assert (entries.get("7").read(), elements.contains("7").read()) == (7, True)
    assert calls(seen) == ["get", "get"]
    entries.put("7", 8)
    entries.remove("8")
    elements.add("7")
    elements.remove("8")
    assert calls(seen) == ["put", "remove", "put", "remove"]
    assert entries.put_if_absent("9", 0).read() == 9
    assert elements.add_if_absent("new").read()
    assert calls(seen) == ["get", "get", "put"]


def test_adding_to_a_list_reads_nothing(seen: Mock, internals: StateInternals[str]) -> None:
    bag, ordered = internals.state(NAMESPACE_1, BAG), internals.state(NAMESPACE_1, LIST)
    bag.add("a")
    FILLED[LIST](ordered)
    FILLED[MULTIMAP](internals.state(NAMESPACE_1, MULTIMAP))
    assert calls(seen) == ["merge", "merge", "merge"]


def test_a_range_of_an_ordered_list_is_a_range_of_keys(seen: Mock, internals: StateInternals[str]) -> None:
    ordered = internals.state(NAMESPACE_1, LIST)
    list(ordered.read_range(at(1), at(2)))
    ordered.clear_range(at(1), at(2))
    (_, (start, end, _), _), deleted = seen.mock_calls
    assert end[:-8] == start[:-8]
    assert (deleted[0], deleted[1][:2]) == ("delete_range", (start, end))
    assert calls(seen) == ["range_scan_with_multi_values", "delete_range"]


def test_a_window_and_all_windows_before_another_are_ranges(seen: Mock, internals: StateInternals[str]) -> None:
    internals.clear(NAMESPACE_1)
    assert calls(seen) == ["delete_range"] * len(FILLED)
    internals.clear_windows_before(NAMESPACE_2)
    assert calls(seen) == ["delete_range"] * len(FILLED)


def test_what_was_announced_is_read_in_one_go(seen: Mock, internals: StateInternals[str]) -> None:
    """And what is not read before something changes, of that only what somebody still has."""
    entries = internals.state(NAMESPACE_1, MAP)
    gets = [entries.get(str(number)).read_later() for number in range(50)]
    internals.state(NAMESPACE_1, VALUE).read_later()
    internals.state(NAMESPACE_1, SUM).read_later()
    assert calls(seen) == []
    assert [get.read() for get in gets] == list(range(50))
    assert calls(seen) == ["multi_get"] * 3
    assert internals.state(NAMESPACE_1, VALUE).read() is None
    assert calls(seen) == []
    gets = [entries.get(str(number)) for number in range(50)]
    del gets[3:]
    entries.put("0", 5)
    (_, (keys, _), _), _ = seen.mock_calls
    assert len(keys) == 3
    assert [get.read() for get in gets] == [0, 1, 2]
    assert calls(seen) == ["multi_get", "put"]


def test_timers_that_are_due_are_one_scan(seen: Mock) -> None:
    factory = TimerInternalsFactory(seen, Utf8Coder(), WINDOWS)
    namespaces = [StateNamespaces.window(WINDOWS, window(start, start + 1)) for start in range(300)]
    for number, namespace in enumerate(namespaces):
        of_key = factory.timer_internals_for_key(str(number % 7))
        of_key.set_timer(timer("end", number, namespace=namespace))
    factory.advance_input_watermark(at(1000))
    seen.reset_mock()
    fired: list[Any] = []
    while (found := factory.remove_next_event_timer()) is not None:
        fired.append(found[1].namespace)
        if len(fired) < 100:
            factory.timer_internals_for_key("x").set_timer(timer(str(len(fired)), 999))
    assert fired == [*namespaces, *[NAMESPACE_1] * 99]
    assert calls(seen).count("range_scan") == 1


def test_timers_that_were_not_all_taken_hold_up_nothing(opened: Opener, engines: EngineFactory) -> None:
    """A scan that stands in the middle when the version is committed, and when the store's copy is closed."""
    provider = opened(engines=engines)
    store = provider.get_store(0)
    _, timers = opened_on(store)
    for seconds in range(5):
        timers.timer_internals_for_key("key").set_timer(timer(str(seconds), seconds))
    timers.advance_input_watermark(at(9))
    store.commit()
    taken = []
    for version in range(1, 4):
        store = provider.get_store(version)
        _, timers = opened_on(store)
        found = timers.remove_next_event_timer()
        assert found is not None
        taken.append(found[1].timer_id)
        store.commit()
        with pytest.raises(StoreEnded):
            timers.remove_next_event_timer()
    provider.close()
    assert taken == ["0", "1", "2"]
    _, timers = opened_on(opened(engines=engines).get_store(4))
    found = timers.remove_next_event_timer()
    assert found is not None
    assert found[1].timer_id == "3"
