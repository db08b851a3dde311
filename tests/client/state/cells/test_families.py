"""The rows of values and lists, byte for byte, in both forms of the time before a value, and what clean-up leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from milepost.state.cells.families import ListFamily, ValueFamily
from milepost.state.cells.lifetime import ExpiryIndex, Lifetime
from milepost.state.cells.states import CurrentKey, KeyedCell
from milepost.state.coders import CoderError
from milepost.state.errors import InvalidUse
from milepost.state.key_groups import KeyGroups, entries_of, with_group
from milepost.state.store import FileStateStoreProvider, MemoryFiles, ProviderSettings, StateStore, StateStoreId

NOW = bytes.fromhex("80000000000003e8")  # 1000 with its sign bit inverted
END = bytes.fromhex("800000000000044c")  # 1100
KEY = b"\x00\x05key"


@dataclass
class Owner:
    """A store and a clock, as a task has them."""

    store: StateStore
    now: int = 1000

    def __post_init__(self) -> None:
        for family in ("values", "expiry"):
            self.store.create_column_family_if_absent(family)
        self.store.create_column_family_if_absent("lists", multiple_values_per_key=True)

    def rows(self, family: str) -> dict[bytes, bytes]:
        """Return the rows of a family of single values."""
        return dict(self.store.iterator(family))

    def indexed(self) -> tuple[Lifetime, ExpiryIndex]:
        """Return a time to live of 100 milliseconds in the form of Spark's dialect."""
        return Lifetime(100, lambda: self.now, stamps_expiry=True), ExpiryIndex(self, "expiry")

    def started(self) -> Lifetime:
        """Return a time to live of 100 milliseconds in the form of Flink's dialect."""
        return Lifetime(100, lambda: self.now, clears_on_read=True)


@pytest.fixture
def owner() -> Iterator[Owner]:
    provider = FileStateStoreProvider(MemoryFiles(), ProviderSettings(maintenance_interval=None))
    provider.init(StateStoreId(0, 0))
    yield Owner(provider.get_store(0))
    provider.close()


def test_a_value_begins_with_its_end_or_with_its_start(owner: Owner) -> None:
    ValueFamily(owner, "values", *owner.indexed()).put(KEY, b"one")
    assert owner.rows("values") == {KEY: END + b"one"}
    assert owner.rows("expiry") == {b"\x00\x05" + END + b"key": b""}
    ValueFamily(owner, "values", owner.started()).put(KEY, b"one")
    assert owner.rows("values") == {KEY: NOW + b"one"}
    ValueFamily(owner, "values").put(KEY, b"one")
    assert owner.rows("values") == {KEY: b"one"}


def test_the_index_has_one_row_for_a_value(owner: Owner) -> None:
    family = ValueFamily(owner, "values", *owner.indexed())
    family.put(KEY, b"one")
    owner.now += 10
    family.put(KEY, b"two")
    assert len(owner.rows("expiry")) == 1
    family.remove(KEY)
    assert owner.rows("values") == owner.rows("expiry") == {}
    family.put(KEY, b"one")
    family.remove_prefix(KEY[:3])
    assert owner.rows("values") == owner.rows("expiry") == {}


def test_reading_leaves_an_expired_value_to_the_index(owner: Owner) -> None:
    family = ValueFamily(owner, "values", *owner.indexed())
    family.put(KEY, b"one")
    owner.now += 100
    assert family.get(KEY) is None
    assert dict(family.scan(b"")) == {}
    assert owner.rows("values") == {KEY: END + b"one"}
    family.clean_due([4])
    assert len(owner.rows("values")) == 1, "it is in another key group"
    family.clean_due([5])
    assert owner.rows("values") == owner.rows("expiry") == {}


def test_reading_removes_an_expired_value(owner: Owner) -> None:
    family = ValueFamily(owner, "values", owner.started())
    family.put(KEY, b"one")
    owner.now += 100
    assert family.get(KEY) is None
    assert owner.rows("values") == {}


def test_each_value_of_a_list_expires_by_itself(owner: Owner) -> None:
    family = ListFamily(owner, "lists", *owner.indexed())
    family.set(KEY, [b"one", b"two"])
    owner.now += 10
    family.add(KEY, [b"three"])
    assert list(owner.store.values_iterator(KEY, "lists"))[:2] == [END + b"one", END + b"two"]
    owner.now += 90
    assert family.get(KEY) == [b"three"]
    family.clean_due([5])
    assert len(list(owner.store.values_iterator(KEY, "lists"))) == 1
    owner.now += 10
    assert not family.exists(KEY)
    family.clean_due([5])
    assert not owner.store.key_exists(KEY, "lists")
    assert owner.rows("expiry") == {}


def test_each_access_checks_the_next_keys(owner: Owner) -> None:
    family = ValueFamily(owner, "values", owner.started(), checks=2)
    for key in (b"a", b"b", b"c"):
        family.put(key, b"old")
    owner.now += 100
    left = []
    for _ in range(3):
        family.get(b"none")
        left.append(len(owner.rows("values")))
    assert left[0] < 3
    assert left[-1] == 0


def test_bytes_without_a_time_are_refused(owner: Owner) -> None:
    for family in (ValueFamily(owner, "values", *owner.indexed()), ValueFamily(owner, "values", owner.started())):
        owner.store.put(KEY, b"short", "values")
        with pytest.raises(CoderError, match="eight bytes"):
            family.get(KEY)


def test_the_current_key_has_a_row_and_entries(owner: Owner) -> None:
    groups = KeyGroups(8)
    current = CurrentKey(groups, "no key")
    cell = KeyedCell(ValueFamily(owner, "values"), current.entries)
    with pytest.raises(InvalidUse, match="no key"):
        cell.get(b"part")
    current.set(b"k\0")
    assert current.row() == with_group(groups, b"k\0")
    assert current.entries() == entries_of(groups, b"k\0")
    cell.put(b"value", b"part")
    assert owner.rows("values") == {entries_of(groups, b"k\0") + b"part": b"value"}
    assert list(cell.parts()) == [(b"part", b"value")]
    cell.remove_parts()
    current.unset()
    with pytest.raises(InvalidUse, match="no key"):
        current.row()
