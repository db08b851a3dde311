"""The record of loaded state stores against a plain model, its bounds, and what it costs with 100,000 instances."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from itertools import count
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from milepost.wire import Code
from milepost_server.rules.decisions import Refused
from milepost_server.rules.instances import Book, Instance, Instances, Limits, Location, first_of

AGE = 100.0
LIMITS = Limits(most=14, most_in_store=6, seconds=AGE)

stores = st.sampled_from(["a", "b"])
instances = st.builds(Instance, st.sampled_from(["r", "s"]), st.just(0), st.integers(0, 3), st.just("default"))
some = st.lists(instances, max_size=4)
executors = st.sampled_from(["1", "2"])


def here(executor: str) -> Location:
    return Location(f"host-{executor}", executor)


class Model:
    """The same by dictionaries that are looked through as a whole."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.had: dict[Instance, tuple[str, float]] = {}
        self.snapshots: dict[Instance, int] = {}
        self.used = 0.0

    def at(self, now: float) -> dict[Instance, str]:
        return {one: executor for one, (executor, confirmed) in self.had.items() if confirmed > now - AGE}

    def put(self, one: Instance, executor: str, now: float) -> None:
        if one not in self.at(now):
            self.snapshots.pop(one, None)
        self.had[one] = (executor, now)

    def confirm(self, these: Sequence[Instance], executor: str, now: float) -> list[Instance]:
        """What of these the executor has; it is confirmed with it."""
        mine = [one for one in these if self.at(now).get(one) == executor]
        for one in mine:
            self.had[one] = (executor, now)
        return mine


class RecordAndModel(RuleBasedStateMachine):
    """Everything that executors and drivers of two jobs do, in any order, with time and epochs going on."""

    def __init__(self) -> None:
        super().__init__()
        numbers = count()
        self.record = Instances(LIMITS, lambda: f"book-{next(numbers)}")
        self.models: dict[str, Model] = {}
        self.epochs = {"a": 1, "b": 1}
        self.ids: dict[str, str] = {}
        self.now = 1000.0

    def opened(self, store: str) -> tuple[Book, Model] | None:
        """The book and the model of a store; None if there is no room for one."""
        book = self.record.open(store, self.epochs[store], self.now)
        if isinstance(book, Refused):
            assert book.code is Code.TOO_MANY_REQUESTS
            return None
        model = self.models.get(store)
        if model is None or model.epoch != self.epochs[store] or self.ids.get(store) != book.id:
            if model is not None and model.epoch == self.epochs[store]:
                assert self.now - model.used >= AGE  # else the id of a book stays
            model = self.models[store] = Model(self.epochs[store])
        self.ids[store] = book.id
        model.used = self.now
        return book, model

    @rule(store=stores, executor=executors, loaded=some, others=some)
    def report(self, store: str, executor: str, loaded: list[Instance], others: list[Instance]) -> None:
        if (both := self.opened(store)) is None:
            return
        book, model = both
        unload = self.record.report(book, here(executor), loaded, others, self.now)
        if isinstance(unload, Refused):
            assert len({*model.had, *loaded}) > LIMITS.most_in_store or len(self.record) + 8 > LIMITS.most
            return
        for one in loaded:
            model.put(one, executor, self.now)
        assert unload == [one for one in others if model.at(self.now).get(one, executor) != executor]
        model.confirm(others, executor, self.now)

    @rule(store=stores, executor=executors, these=some, forgotten=st.booleans())
    def verify(self, store: str, executor: str, these: list[Instance], forgotten: bool) -> None:
        if (both := self.opened(store)) is None:
            return
        book, model = both
        active = self.record.verify(book, here(executor), "" if forgotten else book.id, these, self.now)
        if isinstance(active, Refused):
            assert forgotten
            return
        if forgotten:
            for one in these:
                if one not in model.at(self.now):
                    model.put(one, executor, self.now)
        assert active == model.confirm(these, executor, self.now)

    @rule(store=stores, one=instances, version=st.integers(0, 50))
    def snapshot(self, store: str, one: Instance, version: int) -> None:
        if (both := self.opened(store)) is not None:
            book, model = both
            self.record.snapshot(book, one, version, self.now)
            if one in model.at(self.now):
                model.snapshots[one] = max(version, model.snapshots.get(one, 0))

    @rule(store=stores, these=some, executor=st.none() | executors)
    def deactivate(self, store: str, these: list[Instance], executor: str | None) -> None:
        if (both := self.opened(store)) is not None:
            book, model = both
            for one in these:
                wanted = model.had.get(one, (None, 0.0))[0] if executor is None else executor
                there = model.at(self.now).get(one)
                assert self.record.deactivate(book, one, executor, self.now) == (there is not None and there == wanted)
                if model.had.get(one, ("", 0.0))[0] == wanted:
                    model.had.pop(one, None)
                    model.snapshots.pop(one, None)

    @rule(store=stores)
    def deactivate_all(self, store: str) -> None:
        if (both := self.opened(store)) is not None:
            book, model = both
            self.record.deactivate_all(store, book)
            model.had.clear()
            model.snapshots.clear()
            again = self.record.find(store, self.epochs[store])
            assert again is not None
            assert again.id == book.id  # so that nobody takes what was ended for forgotten

    @rule(store=stores)
    def another_driver(self, store: str) -> None:
        self.epochs[store] += 1

    @rule(seconds=st.sampled_from([0.0, 1.0, AGE / 2, AGE]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(most=st.integers(1, 50))
    def expire(self, most: int) -> None:
        self.record.expire(self.now, most)

    @precondition(lambda self: self.now > 1000.0)
    @rule()
    def change_of_leader(self) -> None:
        self.record.clear()
        self.models.clear()

    @invariant()
    def readers_see_what_the_model_has(self) -> None:
        for store, epoch in self.epochs.items():
            model = self.models.get(store)
            expected = model.at(self.now) if model is not None and model.epoch == epoch else {}
            book = self.record.find(store, epoch)
            found: dict[Instance, Any] = {}
            for one in [] if book is None else list(book.entries):
                assert book is not None
                entry = self.record.entry(book, one, self.now)
                if entry is not None:
                    found[one] = entry.location.executor
                    assert entry.location == here(entry.location.executor)
                    assert model is not None
                    assert (entry.snapshot or 0) == model.snapshots.get(one, 0)
            assert found == expected
            assert book is None or sorted(book.entries) == list(book.entries)

    @invariant()
    def bounds_hold(self) -> None:
        assert len(self.record) <= LIMITS.most

    def teardown(self) -> None:
        self.now += 2 * AGE
        while self.record.expire(self.now, 10):
            pass
        assert len(self.record) == 0


TestRecordAndModel = RecordAndModel.TestCase
TestRecordAndModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def opened(record: Instances, store: str = "a", epoch: int = 1, now: float = 0.0) -> Book:
    book = record.open(store, epoch, now)
    assert isinstance(book, Book)
    return book


def many(number: int, run: str = "r") -> list[Instance]:
    return [Instance(run, 0, partition, "default") for partition in range(number)]


def test_a_full_store_refuses_what_is_new_and_takes_what_moves() -> None:
    record = Instances(LIMITS, lambda: "book")
    book = opened(record)
    assert record.report(book, here("1"), many(6), (), 1.0) == []
    refused = record.report(book, here("1"), [Instance("r", 1, 0, "default")], (), 1.0)
    assert isinstance(refused, Refused)
    assert refused.code is Code.TOO_MANY_REQUESTS
    assert record.report(book, here("2"), many(6), (), 1.0) == []
    assert record.report(book, here("1"), [Instance("r", 1, 0, "default")], (), 1.0 + AGE) == []


def test_what_an_older_epoch_left_makes_room() -> None:
    record = Instances(Limits(most=8, most_in_store=6, seconds=AGE), lambda: "book")
    assert record.report(opened(record), here("1"), many(6), (), 1.0) == []
    later = opened(record, epoch=2)
    assert record.entry(later, many(1)[0], 1.0) is None
    assert record.report(later, here("1"), many(6), (), 1.0) == []


def test_stores_that_nobody_uses_are_forgotten_too() -> None:
    record = Instances(LIMITS, lambda: "book")
    for number in range(LIMITS.most):
        opened(record, f"store-{number}")
    assert isinstance(record.open("one more", 1, 1.0), Refused)
    opened(record, "one more", now=AGE)


def test_an_instance_lags_by_versions_and_by_time() -> None:
    record = Instances(LIMITS, lambda: "book")
    book, (one,) = opened(record), many(1)
    record.report(book, here("1"), [one], (), 10.0)
    entry = record.entry(book, one, 10.0)
    assert entry is not None
    assert not entry.lags(100, 50, 60.0, now=69.0)  # nothing was told yet, but it is not known for long
    assert entry.lags(100, 50, 60.0, now=70.0)
    record.snapshot(book, one, 49, 70.0)
    assert entry.lags(100, 50, 0.0, now=70.0)
    assert not entry.lags(100, 50, 60.0, now=129.0)
    assert not entry.lags(99, 50, 0.0, now=1000.0)
    record.snapshot(book, one, 48, 80.0)
    assert (entry.snapshot, entry.snapshot_at) == (49, 70.0)


def test_a_hundred_thousand_instances() -> None:
    """They take less than a kilobyte each, and no call looks at all of them, which would take far longer."""
    limits = Limits()
    tracemalloc.start()
    try:
        record = Instances(limits, lambda: "book")
        for store in ("a", "b"):
            book = opened(record, store)
            for first in range(0, limits.most_in_store - 100, 100):
                loaded = [Instance(f"run-{store}", 0, first + each, "default") for each in range(100)]
                assert record.report(book, Location("10.0.0.1", f"{first % 50}"), loaded, (), 1.0) == []
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(record) >= 99_000
    assert taken / len(record) < 1000, taken
    book = opened(record)
    last = Instance("run-a", 0, 40_000, "default")
    calls = 200
    began = time.perf_counter()
    for each in range(calls):
        record.report(book, here("x"), [last], many(3, "run-a"), 2.0)
        record.verify(book, here("x"), book.id, [last], 2.0)
        record.deactivate(book, Instance("run-a", 0, each, "default"), None, 2.0)
        next(book.after(first_of("run-a")))
        record.deactivate_all("b", opened(record, "b"))
        record.expire(2.0, 10)
    assert (time.perf_counter() - began) / calls < 0.05
    while record.expire(2.0, 1000):
        pass
    assert len(record) < limits.most_in_store
