"""Which executor has which store loaded: the coordinator, and providers that report, verify and unload."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import pytest

from milepost.state.store import (
    ExecutorLocation,
    FileStateStoreProvider,
    InProcessRecord,
    LoadedStores,
    MemoryEngine,
    MemoryFiles,
    ProviderSettings,
    ReadStateStore,
    StateFiles,
    StateStoreCoordinator,
    StateStoreId,
    this_executor,
)
from tests.client.state.conftest import commit, content

Coordinated = Callable[[str], StateStoreCoordinator]


def at(executor: str) -> ExecutorLocation:
    return ExecutorLocation(f"host-{executor}", executor)


def one_of(partition: int) -> StateStoreId:
    return StateStoreId(0, partition)


def some(*partitions: int) -> list[StateStoreId]:
    return [one_of(partition) for partition in partitions]


@pytest.fixture
def coordinated() -> Coordinated:
    """Makes the coordinator of an executor."""
    record = InProcessRecord()
    return lambda executor: record.coordinator(at(executor))


def test_report_active(coordinated: Coordinated) -> None:
    one, other = coordinated("1"), coordinated("2")
    assert list(one.report_active(one_of(0), [])) == []
    assert list(one.report_active(one_of(1), some(0))) == []
    assert list(other.report_active(one_of(0), some(1, 7))) == some(1)
    assert list(one.report_active(one_of(2), some(0, 1, 7))) == some(0)


def test_verify_active(coordinated: Coordinated) -> None:
    one, other = coordinated("1"), coordinated("2")
    for store in some(0, 1, 2):
        one.report_active(store, [])
    other.report_active(one_of(1), [])
    assert list(one.verify_active(some(0, 1, 2))) == some(0, 2)
    one.deactivate(some(2))
    assert list(one.verify_active(some(0, 1, 2))) == some(0)


def test_locations(coordinated: Coordinated) -> None:
    one, other = coordinated("1"), coordinated("2")
    one.report_active(one_of(0), [])
    other.report_active(one_of(3), [])
    assert dict(one.locations(some(0, 1, 3))) == dict(zip(some(0, 3), (at("1"), at("2")), strict=True))
    assert one.preferred_executors(0, range(5)) == {0: at("1"), 3: at("2")}
    assert one.preferred_executors(1, range(5)) == {}


def test_deactivate(coordinated: Coordinated) -> None:
    one, other = coordinated("1"), coordinated("2")
    one.report_active(one_of(0), [])
    other.report_active(one_of(1), [])
    one.deactivate(some(0, 1, 2))
    assert other.preferred_executors(0, range(3)) == {1: at("2")}


def test_snapshot_made() -> None:
    record = InProcessRecord()
    coordinator = record.coordinator(at("1"))
    coordinator.report_active(one_of(0), [])
    coordinator.snapshot_made(one_of(0), 7)
    coordinator.snapshot_made(one_of(0), 6)
    assert record.snapshots == {StateStoreId(0, 0): 7}


def test_this_executor_is_nobody_else() -> None:
    assert this_executor() != this_executor()


class Counted(MemoryEngine):
    """Tells how many versions are loaded."""

    loaded = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).loaded += 1

    def close(self) -> None:
        type(self).loaded -= 1
        super().close()


@contextmanager
def executor(
    files: StateFiles, coordinator: StateStoreCoordinator, *partitions: int, engines: type[MemoryEngine] = MemoryEngine
) -> Iterator[list[FileStateStoreProvider]]:
    """The providers of an executor, which verifies each time it is maintained."""
    stores = LoadedStores(coordinator, verified_for=0.0)
    settings = ProviderSettings(maintenance_interval=None, min_deltas_for_snapshot=2, engines=engines)
    providers = [FileStateStoreProvider(files, settings, stores) for _ in partitions]
    for provider, partition in zip(providers, partitions, strict=True):
        provider.init(StateStoreId(0, partition))
    yield providers
    for provider in providers:
        provider.close()


def test_a_provider_reports_and_unloads_what_another_executor_has(coordinated: Coordinated) -> None:
    class Mine(Counted):
        pass

    files, one, other = MemoryFiles(), coordinated("1"), coordinated("2")
    with executor(files, one, 0, 1, engines=Mine) as (first, second), executor(files, other, 0) as (taken,):
        commit(first, 0, a="1")
        commit(second, 0, b="1")
        assert Mine.loaded == 2
        assert one.preferred_executors(0, range(2)) == {0: at("1"), 1: at("1")}
        commit(taken, 1, a="2")
        first.do_maintenance()
        assert Mine.loaded == 1  # and the other store stayed
        assert one.preferred_executors(0, range(2)) == {0: at("2"), 1: at("1")}
        commit(second, 1, b="2")
        assert content(first, 2) == {"a": "2"}  # the provider may be used all the same, and has the store again
        assert one.preferred_executors(0, range(2)) == {0: at("1"), 1: at("1")}
    assert one.preferred_executors(0, range(2)) == {}


def test_the_answer_to_a_report_unloads_at_once(coordinated: Coordinated) -> None:
    class Mine(Counted):
        pass

    files, one, other = MemoryFiles(), coordinated("1"), coordinated("2")
    with executor(files, one, 0, 1, engines=Mine) as (first, second), executor(files, other, 0) as (taken,):
        commit(first, 0, a="1")
        commit(taken, 1, a="2")
        assert Mine.loaded == 1
        commit(second, 0, b="1")
        assert Mine.loaded == 1  # the one that was reported, without the other


def test_a_store_that_somebody_has_open_is_not_taken_from_under_it(coordinated: Coordinated) -> None:
    class Mine(Counted):
        pass

    files, one, other = MemoryFiles(), coordinated("1"), coordinated("2")
    with executor(files, one, 0, engines=Mine) as (first,), executor(files, other, 0) as (taken,):
        held = first.get_store(0)
        commit(taken, 0, a="1")
        first.do_maintenance()
        assert Mine.loaded == 1
        held.put(b"a", b"2")
        held.abort()
        first.do_maintenance()
        assert Mine.loaded == 0


def test_only_whose_store_it_is_maintains_it(coordinated: Coordinated) -> None:
    files = MemoryFiles()
    with executor(files, coordinated("1"), 0) as (one,), executor(files, coordinated("2"), 0) as (other,):
        for version in range(3):
            commit(one, version, a=str(version))
        commit(other, 3, a="3")
        one.do_maintenance()
        assert not [info for info in files.list("0/0/default") if info.name.endswith(".snapshot")]
        other.do_maintenance()
        assert [info for info in files.list("0/0/default") if info.name.endswith(".snapshot")]


def test_a_store_opened_during_a_verification_is_not_unloaded_by_it() -> None:
    """The answer is older than the report; a real coordinator cannot be held up between the two."""
    record = InProcessRecord()

    class HeldUp(StateStoreCoordinator):
        def __init__(self) -> None:
            self.real = record.coordinator(at("1"))
            self.meanwhile: Callable[[], object] = lambda: None

        def report_active(self, store: StateStoreId, others: Collection[StateStoreId]) -> Collection[StateStoreId]:
            return self.real.report_active(store, others)

        def verify_active(self, stores: Collection[StateStoreId]) -> Collection[StateStoreId]:
            active = self.real.verify_active(stores)
            self.meanwhile()
            return active

        def locations(self, stores: Collection[StateStoreId]) -> Mapping[StateStoreId, ExecutorLocation]:
            return self.real.locations(stores)

        def snapshot_made(self, store: StateStoreId, version: int) -> None:
            self.real.snapshot_made(store, version)

        def deactivate(self, stores: Collection[StateStoreId]) -> None:
            self.real.deactivate(stores)

    held = HeldUp()
    stores: list[ReadStateStore] = []
    with executor(MemoryFiles(), held, 0) as (provider,):
        commit(provider, 0, a="1")
        record.coordinator(at("2")).report_active(one_of(0), [])
        held.meanwhile = lambda: stores.append(provider.get_read_store(1))
        provider.do_maintenance()
        assert record.locations == {StateStoreId(0, 0): at("1")}
        assert provider._loaded_stores is not None
        assert provider._loaded_stores.stores == some(0)
        held.meanwhile = lambda: None
        stores[0].release()


def test_all_stores_of_a_process_are_verified_together() -> None:
    now = [0.0]
    asked: list[list[StateStoreId]] = []
    coordinator = InProcessRecord().coordinator(at("1"))
    verify = coordinator.verify_active

    def noted(stores: Collection[StateStoreId]) -> Collection[StateStoreId]:
        asked.append(list(stores))
        return verify(stores)

    coordinator.verify_active = noted  # type: ignore[method-assign]
    stores = LoadedStores(coordinator, verified_for=20.0, clock=lambda: now[0])
    files = MemoryFiles()
    providers = [FileStateStoreProvider(files, ProviderSettings(maintenance_interval=None), stores) for _ in range(3)]
    for partition, provider in enumerate(providers):
        provider.init(StateStoreId(0, partition))
        commit(provider, 0, a="1")
    for at_time in (0.0, 10.0, 20.0):
        now[0] = at_time
        for provider in providers:
            provider.do_maintenance()
    assert [sorted(each, key=lambda store: store.partition) for each in asked] == [some(0, 1, 2)] * 2
    for provider in providers:
        provider.close()
