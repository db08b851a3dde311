"""Each kind of state, over each kind of table. docs/state.md names the test of each method.

What Beam's ``StateInternalsTest`` and Gearpump's ``HeapStateInternalsSpec`` hold is held here.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import pytest

from milepost.state.coders import (
    BytesCoder,
    Coder,
    FixedIntCoder,
    JsonCoder,
    ListCoder,
    NullableCoder,
    Utf8Coder,
    VarintCoder,
)
from milepost.state.dialects.beam import (
    CombineFn,
    GlobalWindow,
    GlobalWindowCoder,
    StateInternals,
    StateInternalsFactory,
    StateNamespaces,
    StateTable,
    StateTag,
    StateTags,
    TimestampCombiner,
    TimestampedValue,
    merge_bags,
    merge_combining_values,
    merge_sets,
    merge_watermarks,
)
from milepost.state.errors import CoderError, InvalidUse, NotDeterministic
from tests.client.state.dialects.beam.conftest import NAMESPACE_1, NAMESPACE_2, NAMESPACE_3, WINDOWS, at, window


class Sum(CombineFn[int, "list[int]", int]):
    """The sum of numbers, over an accumulator that it changes."""

    def create_accumulator(self) -> list[int]:
        return [0]

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        accumulator[0] += element
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[int]]) -> list[int]:
        return [sum(one for (one,) in accumulators)]

    def extract_output(self, accumulator: list[int]) -> int:
        return accumulator[0]


def longest(one: str, other: str) -> str:
    return max(one, other, key=len)


VALUE = StateTags.value("value", Utf8Coder())
BAG = StateTags.bag("bag", Utf8Coder())
SET = StateTags.set("set", Utf8Coder())
MAP = StateTags.map("map", Utf8Coder(), VarintCoder())
MULTIMAP = StateTags.multimap("multimap", Utf8Coder(), VarintCoder())
LIST = StateTags.ordered_list("list", Utf8Coder())
SUM = StateTags.combining("sum", ListCoder(VarintCoder()), Sum())
LONGEST = StateTags.reducing("longest", Utf8Coder(), longest)
EARLIEST = StateTags.watermark_hold("watermark", TimestampCombiner.EARLIEST)
LATEST = StateTags.watermark_hold("latest", TimestampCombiner.LATEST)
END_OF_WINDOW = StateTags.watermark_hold("end", TimestampCombiner.END_OF_WINDOW)

FILLED: dict[StateTag[Any], Callable[[Any], None]] = {
    VALUE: lambda cell: cell.write("a"),
    BAG: lambda cell: cell.add("a"),
    SET: lambda cell: cell.add("a"),
    MAP: lambda cell: cell.put("a", 1),
    MULTIMAP: lambda cell: cell.put("a", 1),
    LIST: lambda cell: cell.add(TimestampedValue("a", at(1))),
    SUM: lambda cell: cell.add(1),
    LONGEST: lambda cell: cell.add("a"),
    EARLIEST: lambda cell: cell.add(at(1)),
}
"""A tag of each kind, and how something gets into its cell."""


@pytest.fixture(params=FILLED, ids=lambda tag: tag.id)
def tag(request: pytest.FixtureRequest) -> StateTag[Any]:
    found: StateTag[Any] = request.param
    return found


def test_state(states: StateInternalsFactory[str], tag: StateTag[Any]) -> None:
    """A cell is one for its key, namespace and tag, and apart from all others."""
    internals = states.state_internals_for_key("key")
    cell = internals.state(NAMESPACE_1, tag)
    assert internals.state(NAMESPACE_1, tag) is cell
    assert states.state_internals_for_key("key") is internals
    assert (internals.key, states.key_coder.encode("key")) == ("key", b"key")
    others = [
        internals.state(NAMESPACE_2, tag),
        internals.state(StateNamespaces.global_namespace(), tag),
        internals.state(StateNamespaces.window_and_trigger(WINDOWS, window(0, 10), 0), tag),
        internals.state(NAMESPACE_1, StateTag(tag.id + "2", tag.kind, tag.bind)),
        internals.state(NAMESPACE_1, StateTags.system_tag(tag)),
        *(states.state_internals_for_key(key).state(NAMESPACE_1, tag) for key in ("", "ke", "key2", "key\0")),
    ]
    assert cell not in others
    FILLED[tag](cell)
    assert not cell.is_empty().read()
    assert all(other.is_empty().read() for other in others)


def test_a_cell_that_nobody_has_keeps_nothing_in_memory(internals: StateInternals[str], tag: StateTag[Any]) -> None:
    cell = internals.state(NAMESPACE_1, tag)
    FILLED[tag](cell)
    gone = weakref.ref(cell)
    del cell
    gc.collect()
    assert gone() is None
    assert not internals.state(NAMESPACE_1, tag).is_empty().read()


def test_clear(internals: StateInternals[str], tag: StateTag[Any]) -> None:
    cell, other = internals.state(NAMESPACE_1, tag), internals.state(NAMESPACE_2, tag)
    empty = cell.read() if tag not in (MAP, MULTIMAP) else None
    FILLED[tag](cell)
    FILLED[tag](other)
    cell.clear()
    assert cell.is_empty().read()
    if tag not in (MAP, MULTIMAP, BAG, SET, LIST):
        assert cell.read() == empty
    assert not other.is_empty().read()
    assert internals.state(NAMESPACE_1, tag) is cell
    cell.clear()
    FILLED[tag](cell)
    assert not cell.is_empty().read()


def test_is_empty(internals: StateInternals[str], tag: StateTag[Any]) -> None:
    """What it returns shows the cell as it is whenever it is read."""
    cell = internals.state(NAMESPACE_1, tag)
    empty = cell.is_empty()
    assert empty.read()
    FILLED[tag](cell)
    assert not empty.read_later().read()
    cell.clear()
    assert empty.read()


def test_kinds_of_state_with_one_id_are_apart(internals: StateInternals[str]) -> None:
    for tag, fill in FILLED.items():
        cell = internals.state(NAMESPACE_1, StateTag("same", tag.kind, tag.bind))
        assert cell.is_empty().read()
        fill(cell)


def test_value_state(internals: StateInternals[str]) -> None:
    value = internals.state(NAMESPACE_1, VALUE)
    assert value.read() is None
    value.write("hello")
    assert value.read() == "hello"
    value.write("world")
    assert value.read_later().read() == "world"
    with pytest.raises(CoderError):
        value.write(5)  # type: ignore[arg-type]
    assert value.read() == "world"
    value.write("")
    assert (value.read(), value.is_empty().read()) == ("", False)


def test_a_value_that_is_none_is_there(internals: StateInternals[str]) -> None:
    value = internals.state(NAMESPACE_1, StateTags.value("nullable", NullableCoder(Utf8Coder())))
    value.write(None)
    assert (value.read(), value.is_empty().read()) == (None, False)
    entries = internals.state(NAMESPACE_1, StateTags.map("nullable", Utf8Coder(), NullableCoder(Utf8Coder())))
    entries.put("a", None)
    assert entries.put_if_absent("a", "b").read() is None
    assert (entries.get("a").read(), entries.contains("a").read()) == (None, True)


def test_what_was_written_does_not_change_with_the_object(internals: StateInternals[str]) -> None:
    value = internals.state(NAMESPACE_1, StateTags.value("list", JsonCoder()))
    given = [1]
    value.write(given)
    given.append(2)
    read: Any = value.read()
    read.append(3)
    assert value.read() == [1]


def test_bag_state(internals: StateInternals[str]) -> None:
    bag = internals.state(NAMESPACE_1, BAG)
    assert list(bag.read()) == []
    bag.add("hello")
    assert list(bag.read()) == ["hello"]
    bag.add("world")
    bag.add("hello")
    bag.add("")
    read = bag.read_later().read()
    bag.add("later")
    assert list(read) == ["hello", "world", "hello", ""]
    bag.clear()
    bag.add("anew")
    assert list(bag.read()) == ["anew"]


def test_set_state(internals: StateInternals[str]) -> None:
    cell = internals.state(NAMESPACE_1, SET)
    assert list(cell.read()) == []
    assert not cell.contains("A").read()
    for element in ("A", "B", "A"):
        cell.add(element)
    assert not cell.add_if_absent("B").read()
    assert cell.add_if_absent("0").read_later().read()
    assert list(cell.read()) == ["0", "A", "B"]
    for element in ("0", "A", "C"):
        cell.remove(element)
    assert list(cell.read()) == ["B"]
    assert (cell.contains("A").read(), cell.contains("B").read_later().read()) == (False, True)
    cell.add("")
    assert list(cell.read_later().read()) == ["", "B"]
    assert cell.contains("").read()


def test_what_was_looked_up_does_not_change_afterwards(internals: StateInternals[str]) -> None:
    """Beam's ``testSetReadable`` and ``testMapReadable``: a look-up shows what was there when it was made."""
    elements, entries = internals.state(NAMESPACE_1, SET), internals.state(NAMESPACE_1, MAP)
    entries.put("D", 4)
    contains, there = elements.contains("A"), entries.contains("B")
    get, later, other = entries.get("B"), entries.get("D").read_later(), entries.get_or_default("D", 0)
    keys, values, pairs = entries.keys(), entries.values(), entries.entries()
    elements.add("A")
    entries.put("B", 2)
    entries.clear()
    assert (contains.read(), there.read(), get.read(), later.read(), other.read()) == (False, False, None, 4, 4)
    entries.put("A", 1)
    assert (list(keys.read()), list(values.read()), list(pairs.read())) == (["A"], [1], [("A", 1)])  # of now
    internals.state(NAMESPACE_1, SET).add_if_absent("B")
    entries.put_if_absent("C", 3)
    assert (elements.contains("B").read(), entries.get("C").read()) == (True, 3)


def test_map_state(internals: StateInternals[str]) -> None:
    entries = internals.state(NAMESPACE_1, MAP)
    assert list(entries.entries().read()) == []
    for key, value in (("B", 2), ("A", 1), ("A", 11)):
        entries.put(key, value)
    assert list(entries.entries().read()) == [("A", 11), ("B", 2)]
    assert entries.put_if_absent("B", 22).read() == 2
    assert entries.put_if_absent("C", 3).read() is None
    assert (entries.get("A").read(), entries.get("X").read()) == (11, None)
    assert (entries.get_or_default("C", 0).read(), entries.get_or_default("X", 0).read_later().read()) == (3, 0)
    assert (entries.contains("C").read(), entries.contains("X").read()) == (True, False)
    entries.remove("A")
    entries.remove("X")
    assert list(entries.keys().read()) == ["B", "C"]
    assert list(entries.values().read()) == [2, 3]
    entries.put("", 0)
    assert list(entries.entries().read_later().read()) == [("", 0), ("B", 2), ("C", 3)]


def test_compute_if_absent(internals: StateInternals[str]) -> None:
    entries = internals.state(NAMESPACE_1, MAP)
    assert entries.compute_if_absent("four", len).read() is None
    assert entries.get("four").read() == 4

    def fail(key: str) -> int:
        raise ZeroDivisionError(key)

    assert entries.compute_if_absent("four", fail).read() == 4
    with pytest.raises(ZeroDivisionError):
        entries.compute_if_absent("other", fail)
    assert list(entries.keys().read()) == ["four"]


def test_maps_are_in_the_order_of_ordered_keys(internals: StateInternals[str]) -> None:
    entries = internals.state(NAMESPACE_1, StateTags.map("numbers", FixedIntCoder(4), Utf8Coder()))
    for number in (300, -1, 0, 7):
        entries.put(number, str(number))
    assert list(entries.keys().read()) == [-1, 0, 7, 300]
    before = entries.entries().read()
    entries.clear()
    assert [number for number, _ in before] == [-1, 0, 7, 300]


def test_multimap_state(internals: StateInternals[str]) -> None:
    cell = internals.state(NAMESPACE_1, MULTIMAP)
    b, there, keys, entries = cell.get("B"), cell.contains("B"), cell.keys(), cell.entries()
    assert (list(b.read()), there.read(), list(keys.read()), list(entries.read())) == ([], False, [], [])
    for key, value in (("B", 2), ("A", 1), ("B", 2), ("B", 1), ("BB", 3), ("", 0)):
        cell.put(key, value)
    assert (list(b.read_later().read()), there.read_later().read()) == ([2, 2, 1], True)  # of now
    assert list(keys.read()) == ["", "A", "B", "BB"]
    assert list(entries.read()) == [("", 0), ("A", 1), ("B", 2), ("B", 2), ("B", 1), ("BB", 3)]
    before, listed, seen = b.read(), keys.read(), entries.read()
    with pytest.raises(CoderError):
        cell.put("B", "x")  # type: ignore[arg-type]
    cell.remove("B")
    cell.remove("X")
    assert (list(before), list(listed), len(list(seen))) == ([2, 2, 1], ["", "A", "B", "BB"], 6)
    assert (list(b.read()), there.read(), list(keys.read())) == ([], False, ["", "A", "BB"])
    cell.put("B", 7)
    assert list(cell.get("B").read()) == [7]
    cell.clear()
    assert (list(entries.read()), cell.is_empty().read()) == ([], True)


def test_ordered_list_state(internals: StateInternals[str]) -> None:
    cell = internals.state(NAMESPACE_1, LIST)
    added = [TimestampedValue(value, at(time)) for value, time in (("c", 3), ("a", 1), ("d", 3), ("b", 2), ("-", -1))]
    for one in added:
        cell.add(one)

    def read(*times: float) -> str:
        return "".join(one.value for one in cell.read_range(*map(at, times)))

    assert list(cell.read_later().read()) == [added[index] for index in (4, 1, 3, 0, 2)]
    assert [read(1, 3), read(1, 3.5), read(-5, 1), read(3, 1), read(3, 3), read(4, 9)] == [
        "ab",
        "abcd",
        "-",
        "",
        "",
        "",
    ]
    cell.clear_range(at(3), at(1))
    cell.clear_range(at(2), at(2))
    assert read(-9, 9) == "-abcd"
    cell.clear_range(at(1), at(3))
    assert read(-9, 9) == "-cd"
    with pytest.raises(CoderError, match="time zone"):
        cell.add(TimestampedValue("x", datetime(2000, 1, 1)))
    with pytest.raises(CoderError, match="time zone"):
        cell.clear_range(at(0), datetime(2000, 1, 1))
    assert read(-9, 9) == "-cd"
    cell.clear()
    assert list(cell.read()) == []


def test_combining_state(internals: StateInternals[str]) -> None:
    total = internals.state(NAMESPACE_1, SUM)
    assert (total.read(), total.get_accum()) == (0, [0])
    total.add(2)
    total.add(3)
    assert total.read_later().read() == 5
    total.get_accum()[0] = 100
    assert total.get_accum() == [5]
    total.add_accum([10])
    assert total.read() == 15
    assert total.merge_accumulators([[1], [2]]) == [3]
    assert total.read() == 15
    with pytest.raises(TypeError):
        total.add("x")  # type: ignore[arg-type]
    assert total.read() == 15


def test_reducing_state(internals: StateInternals[str]) -> None:
    cell = internals.state(NAMESPACE_1, LONGEST)
    assert cell.read() is None
    for value in ("aa", "bbb", "c"):
        cell.add(value)
    assert cell.read_later().read() == "bbb"
    with pytest.raises(TypeError):
        cell.add(5)  # type: ignore[arg-type]
    assert cell.read() == "bbb"


@pytest.mark.parametrize(("tag", "seen"), [(EARLIEST, [2, 2, 1]), (LATEST, [2, 3, 3]), (END_OF_WINDOW, [2, 2, 2])])
def test_watermark_hold_state(internals: StateInternals[str], tag: StateTag[Any], seen: list[float]) -> None:
    hold = internals.state(NAMESPACE_1, tag)
    assert hold.read() is None
    for time, expected in zip((2, 3, 1), seen, strict=True):
        hold.add(at(time))
        assert hold.read_later().read() == at(expected)
    with pytest.raises(CoderError, match="time zone"):
        hold.add(datetime(2000, 1, 1))
    assert hold.read() == at(seen[-1])
    assert hold.timestamp_combiner.name == tag.bind.keywords["timestamp_combiner"].name  # type: ignore[attr-defined]


def test_earliest_watermark_hold(states: StateInternalsFactory[str]) -> None:
    internals = states.state_internals_for_key("key")
    assert internals.earliest_watermark_hold() is None
    internals.state(NAMESPACE_2, EARLIEST).add(at(12))
    internals.state(NAMESPACE_1, LATEST).add(at(5))
    internals.state(NAMESPACE_1, VALUE).write("no hold")
    states.state_internals_for_key("other").state(NAMESPACE_1, EARLIEST).add(at(1))
    assert internals.earliest_watermark_hold() == at(5)


def test_read_later(internals: StateInternals[str]) -> None:
    """What was announced is read with what else is read, and still as it is when it is read itself."""
    value, total = internals.state(NAMESPACE_1, VALUE), internals.state(NAMESPACE_1, SUM)
    entries = internals.state(NAMESPACE_1, MAP)
    value.write("one")
    entries.put("a", 1)
    total.add(1)
    value.read_later()
    total.read_later()
    get = entries.get("a").read_later()
    assert total.read() == 1
    total.add(1)
    value.write("two")
    assert (value.read(), total.read(), get.read(), get.read()) == ("two", 2, 1, 1)
    value.read_later()
    assert (entries.get("a").read(), get.read_later().read()) == (1, 1)
    internals.clear(NAMESPACE_1)
    assert (value.read(), total.read()) == (None, 0)


def test_clear_of_a_namespace(states: StateInternalsFactory[str]) -> None:
    """A window goes with its triggers, a trigger alone; nothing else goes."""
    trigger = StateNamespaces.window_and_trigger(WINDOWS, window(0, 10), 3)
    other_trigger = StateNamespaces.window_and_trigger(WINDOWS, window(0, 10), 4)
    everything = StateNamespaces.global_namespace()
    internals, others = states.state_internals_for_key("key"), states.state_internals_for_key("other")
    namespaces = [NAMESPACE_1, trigger, other_trigger, NAMESPACE_2, everything]
    for namespace in namespaces:
        for tag, fill in FILLED.items():
            fill(internals.state(namespace, tag))
            fill(others.state(namespace, tag))

    def filled(of: StateInternals[str]) -> list[bool]:
        found = [{not of.state(namespace, tag).is_empty().read() for tag in FILLED} for namespace in namespaces]
        assert all(len(one) == 1 for one in found)
        return [True in one for one in found]

    internals.clear(trigger)
    assert filled(internals) == [True, False, True, True, True]
    internals.clear(NAMESPACE_1)
    assert filled(internals) == [False, False, False, True, True]
    internals.clear(everything)
    assert filled(internals) == [False, False, False, True, False]
    assert filled(others) == [True] * 5


def test_clear_windows_before(internals: StateInternals[str], tag: StateTag[Any]) -> None:
    windows = [StateNamespaces.window(WINDOWS, window(*times)) for times in ((-5, 5), (0, 10), (8, 10), (3, 20))]
    trigger = StateNamespaces.window_and_trigger(WINDOWS, window(-5, 5), 7)
    namespaces = [trigger, *windows, StateNamespaces.global_namespace()]
    for namespace in namespaces:
        FILLED[tag](internals.state(namespace, tag))
    internals.clear_windows_before(windows[2])
    left = [not internals.state(namespace, tag).is_empty().read() for namespace in namespaces]
    assert left == [False, False, False, True, True, True]
    internals.clear_windows_before(StateNamespaces.window(GlobalWindowCoder(), GlobalWindow()))
    assert not internals.state(windows[3], tag).is_empty().read()
    with pytest.raises(InvalidUse, match="VarintCoder"):
        internals.clear_windows_before(StateNamespaces.window(VarintCoder(), 5))


@pytest.mark.parametrize("into", [0, 1, 2])
def test_merge_bags(internals: StateInternals[str], into: int) -> None:
    """Into a source, and into a new namespace."""
    bags = [internals.state(namespace, BAG) for namespace in (NAMESPACE_1, NAMESPACE_2, NAMESPACE_3)]
    for number, value in ((0, "Hello"), (1, "World"), (0, "!")):
        bags[number].add(value)
    merge_bags(bags, bags[into])
    assert sorted(bags[into].read()) == ["!", "Hello", "World"]
    assert [bag.is_empty().read() for bag in bags].count(True) == 2
    merge_bags([], bags[into])
    merge_bags([bags[into]] * 2, bags[into])
    assert len(list(bags[into].read())) == 3


@pytest.mark.parametrize("into", [0, 2])
def test_merge_sets(internals: StateInternals[str], into: int) -> None:
    sets = [internals.state(namespace, SET) for namespace in (NAMESPACE_1, NAMESPACE_2, NAMESPACE_3)]
    for number, value in ((0, "Hello"), (1, "Hello"), (1, "World"), (0, "!")):
        sets[number].add(value)
    merge_sets(sets[:2], sets[into])
    assert list(sets[into].read()) == ["!", "Hello", "World"]
    assert [one.is_empty().read() for one in sets].count(True) == 2


@pytest.mark.parametrize("into", [0, 2])
def test_merge_combining_values(internals: StateInternals[str], into: int) -> None:
    totals = [internals.state(namespace, SUM) for namespace in (NAMESPACE_1, NAMESPACE_2, NAMESPACE_3)]
    for number, value in ((0, 5), (1, 10), (0, 6)):
        totals[number].add(value)
    merge_combining_values([*totals[:2], totals[1]], totals[into])
    assert [total.read() for total in totals] == ([21, 0, 0] if into == 0 else [0, 0, 21])
    totals[into].clear()
    merge_combining_values(totals, totals[into])
    assert all(total.is_empty().read() for total in totals)


@pytest.mark.parametrize(
    ("tag", "expected"), [(EARLIEST, 3), (LATEST, 14), (END_OF_WINDOW, window(0, 30).max_timestamp())]
)
def test_merge_watermarks(internals: StateInternals[str], tag: StateTag[Any], expected: Any) -> None:
    holds = [internals.state(namespace, tag) for namespace in (NAMESPACE_1, NAMESPACE_2, NAMESPACE_3)]
    holds[0].add(at(3))
    holds[1].add(at(14))
    merge_watermarks([], holds[1], window(0, 30))
    assert holds[0].read() == at(3)
    merge_watermarks(holds, holds[1], window(0, 30))
    assert holds[1].read() == (expected if isinstance(expected, datetime) else at(expected))
    assert holds[0].is_empty().read()
    holds[1].clear()
    merge_watermarks(holds, holds[1], window(0, 30))
    assert holds[1].is_empty().read() is (tag is not END_OF_WINDOW)


def test_a_key_that_its_coder_refuses(states: StateInternalsFactory[str]) -> None:
    with pytest.raises(CoderError):
        states.state_internals_for_key(5)  # type: ignore[arg-type]


def test_keys_of_state_need_a_deterministic_coder(table: StateTable) -> None:
    with pytest.raises(NotDeterministic, match="JsonCoder"):
        StateInternalsFactory(table, JsonCoder())


class _AnotherCoder(Coder[str]):
    """A coder that is equal to no other one, as most are that somebody writes."""

    def encode(self, value: str) -> bytes:
        return Utf8Coder().encode(value)

    def decode(self, data: bytes) -> str:
        return Utf8Coder().decode(data)


def test_a_tag_with_another_coder_is_the_same_cell(internals: StateInternals[str]) -> None:
    """Beam's ``testBagWithBadCoderEquality``."""
    first = internals.state(NAMESPACE_1, StateTags.bag("coders", _AnotherCoder()))
    first.add("hello")
    assert list(internals.state(NAMESPACE_1, StateTags.bag("coders", _AnotherCoder())).read()) == ["hello"]
    del first
    gc.collect()
    assert list(internals.state(NAMESPACE_1, StateTags.bag("coders", BytesCoder())).read()) == [b"hello"]
