"""Each method of the contract, over each kind of engine. docs/state.md names the test of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.state.errors import InvalidUse, StateError, StoreEnded, UnknownFamily, VersionNotFound
from milepost.state.store import (
    Change,
    ChangeKind,
    CheckpointInfo,
    FileStateStoreProvider,
    MemoryFiles,
    StateStore,
    StateStoreId,
    StateStoreMetrics,
)
from milepost.state.store.engines.engine import EngineFactory
from tests.client.state.conftest import Opener, commit, content


@pytest.fixture
def provider(opened: Opener, engines: EngineFactory) -> FileStateStoreProvider:
    return opened(engines=engines, min_deltas_for_snapshot=2)


@pytest.fixture
def store(provider: FileStateStoreProvider) -> Iterator[StateStore]:
    """Version 1, a=1, b=2, c=3 and in ``lists`` x=[1, 2]; with changes on top: b is gone, d=4, x=[1, 2, 3]."""
    first = provider.get_store(0)
    first.create_column_family_if_absent("lists", multiple_values_per_key=True)
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"c", b"3")):
        first.put(key, value)
    first.put_list(b"x", [b"1", b"2"], "lists")
    first.commit()
    second = provider.get_store(1)
    second.remove(b"b")
    second.put(b"d", b"4")
    second.merge(b"x", b"3", "lists")
    yield second
    second.abort()


def test_id_and_version(store: StateStore) -> None:
    assert store.id == StateStoreId(operator=0, partition=0, name="default")
    assert store.id.directory == "0/0/default"
    assert store.version == 1
    for wrong in ((-1, 0, "a"), (0, -1, "a"), (0, 0, "a/b"), (0, 0, ".a"), (0, 0, "")):
        with pytest.raises(InvalidUse):
            StateStoreId(*wrong)


def test_get(store: StateStore) -> None:
    assert [store.get(key) for key in (b"a", b"b", b"d", b"e")] == [b"1", None, b"4", None]
    with pytest.raises(InvalidUse, match="several values"):
        store.get(b"x", "lists")
    with pytest.raises(UnknownFamily, match="nowhere"):
        store.get(b"x", "nowhere")


def test_multi_get(store: StateStore) -> None:
    assert store.multi_get([b"d", b"b", b"a", b"e"]) == [b"4", None, b"1", None]
    assert store.multi_get([]) == []


def test_key_exists(store: StateStore) -> None:
    assert [store.key_exists(key) for key in (b"a", b"b", b"d")] == [True, False, True]
    assert [store.key_exists(key, "lists") for key in (b"x", b"y")] == [True, False]


def test_values_iterator(store: StateStore) -> None:
    assert list(store.values_iterator(b"x", "lists")) == [b"1", b"2", b"3"]
    assert list(store.values_iterator(b"y", "lists")) == []
    with pytest.raises(InvalidUse, match="one value"):
        store.values_iterator(b"a")


def test_iterator(store: StateStore) -> None:
    assert list(store.iterator()) == [(b"a", b"1"), (b"c", b"3"), (b"d", b"4")]
    with pytest.raises(InvalidUse):
        store.iterator("lists")


def test_iterator_shows_what_was_there_when_it_was_asked_for(store: StateStore) -> None:
    pairs = store.iterator()
    first = next(pairs)
    store.put(b"c", b"changed")
    store.remove(b"d")
    store.put(b"z", b"new")
    assert [first, *pairs] == [(b"a", b"1"), (b"c", b"3"), (b"d", b"4")]
    assert list(store.iterator()) == [(b"a", b"1"), (b"c", b"changed"), (b"z", b"new")]


def test_iterator_with_multi_values(store: StateStore) -> None:
    store.put_list(b"w", [b"8", b"9"], "lists")
    assert list(store.iterator_with_multi_values("lists")) == [
        (b"w", b"8"),
        (b"w", b"9"),
        (b"x", b"1"),
        (b"x", b"2"),
        (b"x", b"3"),
    ]


def test_prefix_scan(store: StateStore) -> None:
    for key in (b"c", b"ca", b"cb\xff", b"d\xff", b"d\xff\xff", b"e"):
        store.put(key, b"-")
    assert [key for key, _ in store.prefix_scan(b"c")] == [b"c", b"ca", b"cb\xff"]
    assert [key for key, _ in store.prefix_scan(b"d\xff")] == [b"d\xff", b"d\xff\xff"]
    assert [key for key, _ in store.prefix_scan(b"")] == [key for key, _ in store.iterator()]


def test_prefix_scan_with_multi_values(store: StateStore) -> None:
    store.merge(b"xy", b"4", "lists")
    store.merge(b"y", b"5", "lists")
    assert [value for _, value in store.prefix_scan_with_multi_values(b"x", "lists")] == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (None, None, [b"a", b"c", b"d"]),
        (b"b", None, [b"c", b"d"]),
        (None, b"d", [b"a", b"c"]),
        (b"c", b"d", [b"c"]),
        (b"c", b"c", []),
        (b"d", b"a", []),
    ],
)
def test_range_scan(store: StateStore, start: bytes | None, end: bytes | None, found: list[bytes]) -> None:
    assert [key for key, _ in store.range_scan(start, end)] == found


def test_range_scan_with_multi_values(store: StateStore) -> None:
    store.merge(b"y", b"4", "lists")
    assert list(store.range_scan_with_multi_values(b"x\0", None, "lists")) == [(b"y", b"4")]
    assert [value for _, value in store.range_scan_with_multi_values(None, b"y", "lists")] == [b"1", b"2", b"3"]


def test_put(store: StateStore) -> None:
    store.put(b"a", b"other")
    assert store.get(b"a") == b"other"
    store.put(b"x", b"alone", "lists")
    assert list(store.values_iterator(b"x", "lists")) == [b"alone"]
    with pytest.raises(InvalidUse, match="are bytes"):
        store.put("a", b"1")  # type: ignore[arg-type]
    with pytest.raises(InvalidUse, match="at most 65536 bytes"):
        store.put(b"a" * 65537, b"1")


def test_put_list(store: StateStore) -> None:
    store.put_list(b"x", [b"", b"2" * 300], "lists")
    assert list(store.values_iterator(b"x", "lists")) == [b"", b"2" * 300]
    with pytest.raises(InvalidUse, match="one value at least"):
        store.put_list(b"x", [], "lists")
    with pytest.raises(InvalidUse, match="has one value"):
        store.put_list(b"a", [b"1"])


def test_merge_and_merge_list(store: StateStore) -> None:
    store.merge_list(b"x", [b"4", b"5"], "lists")
    store.merge_list(b"x", [], "lists")
    store.merge_list(b"nobody", [], "lists")
    assert list(store.values_iterator(b"x", "lists")) == [b"1", b"2", b"3", b"4", b"5"]
    assert not store.key_exists(b"nobody", "lists")
    store.remove(b"x", "lists")
    store.merge(b"x", b"6", "lists")
    assert list(store.values_iterator(b"x", "lists")) == [b"6"]
    with pytest.raises(InvalidUse, match="one value"):
        store.merge(b"a", b"1")


def test_remove(store: StateStore) -> None:
    store.remove(b"d")
    store.remove(b"absent")
    store.remove(b"x", "lists")
    assert [key for key, _ in store.iterator()] == [b"a", b"c"]
    assert list(store.values_iterator(b"x", "lists")) == []


def test_delete_range(store: StateStore) -> None:
    store.delete_range(b"b", b"d")
    assert [key for key, _ in store.iterator()] == [b"a", b"d"]
    store.delete_range(None, None)
    store.delete_range(b"x", None, "lists")
    assert list(store.iterator()) == list(store.iterator_with_multi_values("lists")) == []


def test_column_families(provider: FileStateStoreProvider, store: StateStore) -> None:
    store.create_column_family_if_absent("more")
    store.create_column_family_if_absent("more")
    store.put(b"a", b"in more", "more")
    assert store.all_column_family_names() == {"default", "lists", "more"}
    assert (store.get(b"a"), store.get(b"a", "more")) == (b"1", b"in more")
    with pytest.raises(InvalidUse, match="one value"):
        store.create_column_family_if_absent("more", multiple_values_per_key=True)
    assert store.remove_column_family_if_exists("lists")
    assert not store.remove_column_family_if_exists("lists")
    with pytest.raises(UnknownFamily):
        store.merge(b"x", b"1", "lists")
    store.create_column_family_if_absent("lists")  # another one, of the other kind
    assert list(store.iterator("lists")) == []
    with pytest.raises(InvalidUse, match="cannot be removed"):
        store.remove_column_family_if_exists("default")
    store.commit()
    assert store.metrics.num_keys == 4
    again = provider.get_read_store(2)
    assert list(again.iterator("more")) == [(b"a", b"in more")]
    assert list(again.iterator("lists")) == []


def test_commit_and_has_committed(provider: FileStateStoreProvider, store: StateStore) -> None:
    assert not store.has_committed
    assert store.commit() == 2
    assert store.has_committed
    assert content(provider, 1) == {"a": "1", "b": "2", "c": "3"}
    assert content(provider, 2) == {"a": "1", "c": "3", "d": "4"}


def test_abort(provider: FileStateStoreProvider, store: StateStore) -> None:
    store.abort()
    store.abort()
    assert not store.has_committed
    assert content(provider, 1) == {"a": "1", "b": "2", "c": "3"}
    with pytest.raises(VersionNotFound):
        provider.get_store(2)


def test_release_and_what_is_ended(provider: FileStateStoreProvider, store: StateStore) -> None:
    pairs = store.iterator()
    next(pairs)
    store.commit()
    for call in (
        lambda: next(pairs),
        lambda: store.get(b"a"),
        lambda: store.put(b"a", b"1"),
        lambda: store.all_column_family_names(),
        lambda: store.commit(),
        lambda: store.remove_column_family_if_exists("lists"),
        lambda: store.delete_range(None, None),
    ):
        with pytest.raises(StoreEnded, match="was committed"):
            call()
    read = provider.get_read_store(2)
    read.release()
    read.release()
    with pytest.raises(StoreEnded, match="was released"):
        read.get(b"a")


def test_metrics(store: StateStore) -> None:
    assert store.metrics.num_keys == 4
    assert store.metrics.memory_used_bytes > 0
    store.commit()
    found = store.metrics
    assert found.num_keys == 4
    assert found.custom["changes"] == 3
    assert found.custom["bytes_written"] > 0
    both = StateStoreMetrics.combine([found, found])
    assert (both.num_keys, both.custom["changes"]) == (8, 6)


def test_checkpoint_info(provider: FileStateStoreProvider, store: StateStore) -> None:
    with pytest.raises(InvalidUse, match="was not committed"):
        store.checkpoint_info  # noqa: B018
    store.commit()
    info = store.checkpoint_info
    assert info == CheckpointInfo(partition=0, version=2, id=info.id, base_id=info.base_id)
    assert content(provider, 2, info.id) == content(provider, 2)
    assert info.base_id is not None
    assert content(provider, 1, info.base_id) == content(provider, 1)


def test_init(engines: EngineFactory, opened: Opener) -> None:
    fresh = FileStateStoreProvider(MemoryFiles())
    with pytest.raises(InvalidUse, match="init"):
        fresh.get_store(0)
    with pytest.raises(InvalidUse, match="already"):
        opened(engines=engines).init(StateStoreId(1, 1))
    several = opened(engines=engines, multiple=True)
    assert several.state_store_id == StateStoreId(0, 0)
    store = several.get_store(0)
    store.merge(b"a", b"1")
    store.commit()
    with pytest.raises(InvalidUse, match="of the other kind"):
        opened(engines=engines, multiple=False).get_store(1)


def test_get_store(provider: FileStateStoreProvider) -> None:
    first = commit(provider, 0, a="1")
    commit(provider, 1, first, a="2")
    assert content(provider, 0) == {}
    assert content(provider, 1, first) == {"a": "1"}
    assert content(provider, 2) == {"a": "2"}
    for wrong, error in (
        ((3,), VersionNotFound),
        ((1, "0" * 32), VersionNotFound),
        ((-1,), InvalidUse),
        ((0, first), InvalidUse),
    ):
        with pytest.raises(error):
            provider.get_store(*wrong)


def test_get_read_store(provider: FileStateStoreProvider) -> None:
    """Readers of a version see it while another store makes the next, and after that."""
    commit(provider, 0, a="1")
    one, other = provider.get_read_store(1), provider.get_read_store(1)
    commit(provider, 1, a="2")
    one.release()
    assert other.get(b"a") == b"1"
    assert not hasattr(other, "put")


def test_upgrade_read_store_to_write_store(provider: FileStateStoreProvider) -> None:
    commit(provider, 0, a="1")
    read = provider.get_read_store(1)
    write = provider.upgrade_read_store_to_write_store(read)
    with pytest.raises(StoreEnded):
        read.get(b"a")
    write.put(b"b", b"2")
    assert write.commit() == 2
    assert content(provider, 2) == {"a": "1", "b": "2"}
    with pytest.raises(InvalidUse, match="opened for reading"):
        provider.upgrade_read_store_to_write_store(provider.get_store(2))
    of_nothing = provider.upgrade_read_store_to_write_store(provider.get_read_store(0))
    assert of_nothing.version == 0


def test_latest_version(provider: FileStateStoreProvider) -> None:
    assert provider.latest_version() == 0
    commit(provider, 0, a="1")
    commit(provider, 1, a="2")
    assert provider.latest_version() == 2


def test_replay_state_from_snapshot(provider: FileStateStoreProvider) -> None:
    for version in range(5):
        commit(provider, version, a=str(version + 1))
        provider.do_snapshot_maintenance()  # at 2 and 4
    replayed = provider.replay_state_from_snapshot(2, 5)
    assert replayed.get(b"a") == b"5"
    replayed.put(b"b", b"1")
    assert replayed.commit() == 6
    with pytest.raises(VersionNotFound, match="no snapshot of version 3"):
        provider.replay_state_from_snapshot(3, 5)


def test_replay_read_state_from_snapshot(provider: FileStateStoreProvider) -> None:
    for version in range(3):
        commit(provider, version, a=str(version + 1))
        provider.do_snapshot_maintenance()
    replayed = provider.replay_read_state_from_snapshot(2, 3)
    assert replayed.get(b"a") == b"3"
    replayed.release()


def test_changes(provider: FileStateStoreProvider, store: StateStore) -> None:
    store.commit()
    put, removed, appended = ChangeKind.PUT, ChangeKind.REMOVE, ChangeKind.APPEND
    assert list(provider.changes(2, 2)) == [
        Change(2, "default", removed, b"b", ()),
        Change(2, "default", put, b"d", (b"4",)),
        Change(2, "lists", appended, b"x", (b"3",)),
    ]
    assert list(provider.changes(1, 2, family="lists")) == [
        Change(1, "lists", put, b"x", (b"1", b"2")),
        Change(2, "lists", appended, b"x", (b"3",)),
    ]
    assert [one.version for one in provider.changes(1, 2)] == [1, 1, 1, 1, 2, 2, 2]
    for wrong in ((0, 1), (2, 1)):
        with pytest.raises(InvalidUse):
            provider.changes(*wrong)
    with pytest.raises(StateError):
        provider.changes(1, 3)


def test_supported_custom_metrics(provider: FileStateStoreProvider, store: StateStore) -> None:
    store.commit()
    assert store.metrics.custom.keys() == provider.supported_custom_metrics


def test_close(provider: FileStateStoreProvider) -> None:
    """A store that is open when its provider is closed can still be committed."""
    store = provider.get_store(0)
    provider.close()
    provider.close()
    store.put(b"a", b"1")
    assert store.commit() == 1
