"""Which commit is a version, what is loaded again, and how a commit ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence

import pytest

from milepost.state.errors import (
    CommitUnknown,
    Diverged,
    EngineFailed,
    FilesError,
    InvalidUse,
    StateDamaged,
    VersionNotFound,
)
from milepost.state.store import FileStateStoreProvider, MemoryEngine, MemoryFiles, writing_store
from milepost.state.store.engines.engine import Engine
from tests.client.state.conftest import Opener, commit, content
from tests.client.state.support.failing_files import FailingFiles, Failure


def deltas(files: FailingFiles) -> list[str]:
    return [info.name for info in files.list("0/0/default") if info.name.endswith(".delta")]


def test_two_commits_of_one_version_are_told_apart(opened: Opener, files: FailingFiles) -> None:
    """A task that was taken for dead and another in its place: neither overwrites the other, and nobody guesses."""
    first = commit(opened(), 0, a="0")
    one, other = opened(), opened()
    ids = sorted([commit(one, 1, first, a="1"), commit(other, 1, first, a="2")])
    with pytest.raises(Diverged, match="was committed 2 times") as raised:
        opened().get_store(2)
    assert (raised.value.version, list(raised.value.ids)) == (2, ids)
    assert {content(opened(), 2, id)["a"] for id in ids} == {"1", "2"}
    assert len(deltas(files)) == 3
    third = commit(other, 2, ids[1], b="3")
    assert content(opened(), 3, third)["a"] == content(opened(), 2, ids[1])["a"]


def test_what_is_loaded_is_not_read_again(opened: Opener, files: FailingFiles) -> None:
    provider = opened()
    for version in range(5):
        commit(provider, version, a=str(version))
    assert files.bytes_read == 0
    other = opened()
    content(other, 3)
    read = files.bytes_read
    assert content(other, 3) == {"a": "2"}
    assert files.bytes_read == read
    assert content(other, 5) == {"a": "4"}  # from version 3 on
    assert 0 < files.bytes_read - read <= 3 * 3000


def test_no_more_versions_stay_loaded_than_are_wanted(opened: Opener) -> None:
    closed: list[Engine] = []

    class Counted(MemoryEngine):
        def close(self) -> None:
            closed.append(self)
            super().close()

    provider = opened(engines=Counted, idle_engines=1)
    commit(provider, 0, a="1")
    one, other = provider.get_read_store(1), provider.get_store(1)
    one.release()
    other.abort()
    assert len(closed) == 1
    last = provider.get_store(1)
    provider.close()
    assert len(closed) == 1
    last.abort()
    assert len(closed) == 2


def test_threads_share_a_provider(opened: Opener) -> None:
    provider = opened(min_deltas_for_snapshot=3)
    ids = [commit(provider, 0, a="0")]
    for version in range(1, 8):
        ids.append(commit(provider, version, ids[-1], a=str(version)))
    wrong: list[object] = []

    def read() -> None:
        for turn in range(60):
            version = turn * 5 % 8 + 1
            try:
                found = content(provider, version, ids[version - 1])
            except Exception as error:  # any is a failure of the test
                wrong.append(error)
                raise
            if found != {"a": str(version - 1)}:
                wrong.append((version, found))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(20):
        provider.do_maintenance()
        ids.append(commit(provider, 8 + turn, ids[-1], a=str(turn)))
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_a_commit_with_an_unknown_outcome_is_read_back(opened: Opener, files: FailingFiles) -> None:
    provider = opened()
    files.creations.append(Failure.UNHEARD)
    commit(provider, 0, a="1")
    files.creations.append(Failure.LOST)  # and created once more
    commit(provider, 1, a="2")
    assert (content(opened(), 2), len(deltas(files))) == ({"a": "2"}, 2)


def test_a_commit_that_stays_unknown_can_be_made_again(opened: Opener, files: FailingFiles) -> None:
    provider = opened()
    store = provider.get_store(0)
    store.put(b"a", b"1")
    files.creations.extend([Failure.LOST, Failure.LOST])
    with pytest.raises(CommitUnknown, match="not known whether version 1 was committed"):
        store.commit()
    assert not store.has_committed
    files.creations.append(Failure.UNHEARD)
    files.unreadable = True
    with pytest.raises(CommitUnknown, match="could not be read back"):
        store.commit()
    files.unreadable = False
    assert store.commit() == 1
    assert len(deltas(files)) == 1


def test_a_commit_that_was_refused_can_be_made_again_with_other_changes(opened: Opener, files: FailingFiles) -> None:
    store = opened().get_store(0)
    store.put(b"a", b"1")
    files.creations.append(Failure.REFUSED)
    with pytest.raises(FilesError):
        store.commit()
    assert deltas(files) == []
    store.put(b"a", b"2")
    store.commit()
    assert content(opened(), 1) == {"a": "2"}


def test_a_list_that_grows_too_large_is_refused(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gibibyte, which is made a hundred bytes here: also if each commit adds little."""
    monkeypatch.setattr(writing_store, "MOST_VALUE_BYTES", 100)
    provider = opened(multiple=True)
    for version in range(2):
        store = provider.get_store(version)
        store.merge(b"a", b"1" * 49)
        assert store.commit() == version + 1
    store = provider.get_store(2)
    store.merge(b"a", b"1")
    with pytest.raises(InvalidUse, match="at most 100 bytes"):
        store.commit()
    store.remove(b"a")
    assert store.commit() == 3


def test_a_commit_of_which_only_a_part_is_there_is_no_commit(opened: Opener, files: FailingFiles) -> None:
    store = opened().get_store(0)
    store.put(b"a", b"1")
    files.creations.append(Failure.TORN_UNHEARD)
    with pytest.raises(StateDamaged, match="with other bytes"):
        store.commit()
    assert not store.has_committed
    with pytest.raises(StateDamaged):
        opened().get_store(1)


def test_a_base_that_fails_after_the_commit_is_loaded_anew(opened: Opener, caplog: pytest.LogCaptureFixture) -> None:
    """The file is there, so the commit is made. (An engine in memory cannot fail by itself.)"""

    class Full(MemoryEngine):
        full = False

        def apply(self, changes: object) -> None:
            if self.full:
                raise EngineFailed("no place")
            super().apply(changes)  # type: ignore[arg-type]

    provider = opened(engines=Full)
    store = provider.get_store(0)
    store.put(b"a", b"1")
    Full.full = True
    with caplog.at_level(logging.WARNING):
        assert store.commit() == 1
    assert "loaded anew" in caplog.text
    Full.full = False
    assert content(provider, 1) == {"a": "1"}


def test_a_base_that_failed_is_not_used_again(opened: Opener) -> None:
    class Failing(MemoryEngine):
        failing = True

        def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
            if self.failing:
                raise EngineFailed("cannot read")
            return super().get_many(keys)

        def scan(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
            self.get_many(())
            yield from super().scan(start, end)

    made: list[Failing] = []

    def make() -> Failing:
        made.append(Failing())
        return made[-1]

    provider = opened(engines=make)
    reader = provider.get_read_store(0)
    with pytest.raises(EngineFailed):
        reader.get(b"a")
    with pytest.raises(EngineFailed):
        list(provider.get_read_store(0).iterator())
    store = provider.get_store(0)
    store.put(b"a", b"1")
    with pytest.raises(EngineFailed):
        store.commit()
    store.abort()
    assert len(made) == 3
    Failing.failing = False
    commit(provider, 0, a="1")
    assert len(made) == 4
    assert content(provider, 1) == {"a": "1"}


def test_a_load_that_fails_leaves_nothing_half_loaded(opened: Opener, files: FailingFiles) -> None:
    commit(opened(), 0, a="1")
    provider = opened()
    files.unreadable = True
    with pytest.raises(FilesError):
        content(provider, 1)
    files.unreadable = False
    assert content(provider, 1) == {"a": "1"}


def test_a_damaged_snapshot_is_passed_by(opened: Opener, files: FailingFiles, caplog: pytest.LogCaptureFixture) -> None:
    provider = opened(min_deltas_for_snapshot=2, versions_to_keep=2)
    for version in range(4):
        commit(provider, version, a=str(version))
        provider.do_snapshot_maintenance()
    place = files.files
    assert isinstance(place, MemoryFiles)
    (newest,) = [name for name in place._files if name.startswith("0/0/default/4_") and name.endswith(".snapshot")]
    place._files[newest] = (b"\0" * 100, 0.0)
    with caplog.at_level(logging.WARNING):
        assert content(opened(), 4) == {"a": "3"}
    assert f"{newest} is damaged" in caplog.text
    for name in deltas(files):
        if not name.startswith("0/0/default/4_"):
            files.delete(name)
    with pytest.raises(StateDamaged) as raised:  # and no way is left
        content(opened(), 4)
    assert raised.value.path == newest


def test_lineage_goes_back_to_a_snapshot_and_no_further(opened: Opener) -> None:
    provider = opened(min_deltas_for_snapshot=10)
    for version in range(35):
        commit(provider, version, a=str(version))
        provider.do_maintenance()
    history = provider._history
    listing = history.list()
    heads = [history.delta((version, listing.commits[version][0])) for version in (1, 10, 11, 12, 31, 35)]
    assert [len(head.lineage) for head in heads] == [0, 9, 1, 2, 1, 5]


def test_a_commit_needs_none_of_the_files_that_led_to_it(opened: Opener, files: FailingFiles) -> None:
    """They may have been cleaned up meanwhile, by a provider that knows of newer versions."""
    first = opened(min_deltas_for_snapshot=2)
    ids = [commit(first, version, **{f"k{version}": "v"}) for version in range(2)]
    first.do_maintenance()
    commit(first, 2, k2="v")
    provider = opened()
    store = provider.get_store(3)
    for info in files.list("0/0/default"):
        if "/3_" not in info.name:
            files.delete(info.name)
    assert provider.latest_version() == 3
    assert store.commit() == 4
    history = provider._history
    lineage = history.delta((4, store.checkpoint_info.id)).lineage
    assert lineage == ((3, store.checkpoint_info.base_id), (2, ids[1]))


def test_without_snapshots_lineage_is_bounded_and_followed(opened: Opener) -> None:
    provider = opened()
    for version in range(250):
        commit(provider, version, **{f"k{version}": "v"})
    assert len(content(opened(), 250)) == 250
    history = provider._history
    (id,) = history.list().commits[250]
    assert len(history.delta((250, id)).lineage) == 100


def test_a_pin_has_a_name_of_its_own(opened: Opener) -> None:
    provider = opened()
    commit(provider, 0, a="1")
    provider.pin("one", 1)
    for name, version in (("one", 1), ("", 1), ("a/b", 1), ("two", 0)):
        with pytest.raises(InvalidUse):
            provider.pin(name, version)
    with pytest.raises(VersionNotFound):
        provider.pin("two", 2)
    provider.unpin("one")
    provider.unpin("one")
    provider.pin("one", 1)


def test_two_stores_do_not_meet(files: FailingFiles) -> None:
    from milepost.state.store import ProviderSettings, StateStoreId

    for partition in (0, 1):
        provider = FileStateStoreProvider(files, ProviderSettings(maintenance_interval=None))
        provider.init(StateStoreId(0, partition, "joined"))
        commit(provider, 0, partition=str(partition))
        assert content(provider, 1) == {"partition": str(partition)}
        provider.close()
