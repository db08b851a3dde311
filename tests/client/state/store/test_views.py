"""Changes that are not committed yet, seen as they were when a scan began, without a copy of all of them."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from milepost.state.dialects.beam import HeapTable
from milepost.state.store import sorted_map
from milepost.state.store.reading_store import Overlay
from milepost.state.store.rows import fold
from milepost.state.store.writing_store import FileStateStore
from tests.client.state.conftest import Opener

keys = st.integers(0, 5).map(lambda number: bytes((number // 2, number)))


class Views(RuleBasedStateMachine):
    """What changes, and a dict of the same: each view shows what the dict held when it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.content: dict[bytes, Any] = {}
        self.views: list[tuple[Any, list[Any]]] = []

    def see(self, start: bytes, end: bytes | None) -> Any:
        """Return a view."""
        raise NotImplementedError

    def pairs(self, start: bytes = b"", end: bytes | None = None) -> list[Any]:
        """Return what it has to show."""
        return [(key, self.content[key]) for key in sorted(self.content) if key >= start and (end is None or key < end)]

    @rule(start=keys, end=st.none() | keys)
    def begin(self, start: bytes, end: bytes | None) -> None:
        self.views.append((iter(self.see(start, end)), self.pairs(start, end)))

    @rule(which=st.integers(0, 5))
    def step(self, which: int) -> None:
        if self.views:
            view, expected = self.views[which % len(self.views)]
            assert next(view, None) == (expected.pop(0) if expected else None)

    @rule(which=st.integers(0, 5))
    def end(self, which: int) -> None:
        if self.views:
            view, expected = self.views.pop(which % len(self.views))
            assert list(view) == expected

    @rule()
    def all(self) -> None:
        assert list(self.see(b"", None)) == self.pairs()


class OverlayViews(Views):
    """Of the changes of a store."""

    def __init__(self) -> None:
        super().__init__()
        self.overlay = Overlay()

    def see(self, start: bytes, end: bytes | None) -> Any:
        view = self.overlay.view(start, end)
        assert view or not self.pairs(start, end)
        return view

    @rule(key=keys, value=st.binary(max_size=2))
    def put(self, key: bytes, value: bytes) -> None:
        self.overlay.put(key, value)
        self.content[key] = (1, value)

    @rule(key=keys)
    def remove(self, key: bytes) -> None:
        self.overlay.remove(key)
        self.content[key] = (2, b"")

    @rule(key=keys, values=st.lists(st.binary(min_size=1, max_size=2), min_size=1, max_size=3))
    def append(self, key: bytes, values: list[bytes]) -> None:
        for value in values:
            self.overlay.append(key, value)
            before = self.content.get(key)
            self.content[key] = (3, value) if before is None else fold(before, (3, value))

    @rule(number=st.integers(0, 2))
    def drop(self, number: int) -> None:
        self.overlay.drop(bytes((number,)))
        self.content = {key: update for key, update in self.content.items() if key[0] != number}


class TableViews(Views):
    """Of a table in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.table = HeapTable()
        self.table.create_column_family_if_absent("")

    def see(self, start: bytes, end: bytes | None) -> Any:
        return self.table.range_scan_with_multi_values(start, end)

    def pairs(self, start: bytes = b"", end: bytes | None = None) -> list[Any]:
        return [(key, value) for key, values in super().pairs(start, end) for value in values]

    @rule(key=keys, value=st.binary(max_size=2))
    def put(self, key: bytes, value: bytes) -> None:
        self.table.put(key, value)
        self.content[key] = [value]

    @rule(key=keys, value=st.binary(max_size=2))
    def merge(self, key: bytes, value: bytes) -> None:
        self.table.merge(key, value)
        self.content.setdefault(key, []).append(value)

    @rule(key=keys)
    def remove(self, key: bytes) -> None:
        self.table.remove(key)
        self.content.pop(key, None)

    @rule(start=keys, end=keys)
    def delete_range(self, start: bytes, end: bytes) -> None:
        self.table.delete_range(start, end)
        for key in [key for key in self.content if start <= key < end]:
            del self.content[key]


@pytest.mark.parametrize("machine", [OverlayViews, TableViews])
def test_a_view_shows_what_was_there_when_it_was_made(machine: type[Views]) -> None:
    with patch.multiple(sorted_map, _FIRST=1, _MOST=2):
        run_state_machine_as_test(machine)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The keys whose changes were looked at."""
    found: list[bytes] = []
    get = Overlay.get

    def counted(self: Overlay, key: bytes) -> tuple[int, bytes] | None:
        found.append(key)
        return get(self, key)

    monkeypatch.setattr(Overlay, "get", counted)
    return found


def test_a_scan_of_which_one_pair_is_wanted_reads_few_changes(opened: Opener, looked_at: list[bytes]) -> None:
    """A map that grows, and is asked again and again whether it has an entry: this took hours with 100,000."""
    store = opened().get_store(0)
    for number in range(5000):
        store.put(b"%d" % number, b"")
        assert next(store.prefix_scan(b"")) == (b"0", b"")
    assert len(looked_at) < 5000 * 70


def test_a_finished_or_forgotten_scan_costs_changes_nothing(opened: Opener, looked_at: list[bytes]) -> None:
    store = opened().get_store(0)
    for number in range(5000):
        store.put(b"%d" % number, b"")
    for _ in range(10):
        next(store.prefix_scan(b""))
    assert len(list(store.iterator())) == 5000
    looked_at.clear()
    for number in range(5000):
        store.put(b"%d" % number, b"1")
    assert looked_at == []


def test_a_list_that_grows_while_a_scan_is_open_is_kept_as_it_was(opened: Opener, looked_at: list[bytes]) -> None:
    store = opened(multiple=True).get_store(0)
    assert isinstance(store, FileStateStore)
    for number in range(200):
        store.merge(b"%03d" % number, b"1")
        store.merge(b"%03d" % number, b"1")  # so that it is in two pieces
    scan = store.iterator_with_multi_values()
    assert next(scan) == (b"000", b"1")
    looked_at.clear()
    for _ in range(100):
        store.merge(b"199", b"2")
    assert len(looked_at) == 1  # its pieces are put together once, and not for each that comes
    assert [value for key, value in scan if key == b"199"] == [b"1"] * 2
    assert list(store.values_iterator(b"199")) == [b"1"] * 2 + [b"2"] * 100
