"""Snapshots, merging, clean-up, and the thread that does all three."""

from __future__ import annotations

import gc
import logging
import random
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.state.errors import FilesError, StateDamaged, VersionNotFound
from milepost.state.store import Created, FileStateStoreProvider, MemoryFiles, ProviderSettings, StateStoreId
from milepost.state.store.format.heads import Run, RunPart
from milepost.state.store.format.names import Kind
from milepost.state.store.maintenance import Maintenance
from milepost.state.store.merging import merged, runs_to_keep
from milepost.state.store.rows import Op, Row, outcome
from tests.client.state.conftest import Opener, commit, content
from tests.client.state.support.failing_files import FailingFiles


def names(files: FailingFiles, kind: str) -> list[str]:
    return [info.name for info in files.list("0/0/default") if info.name.endswith(kind)]


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


rows = st.dictionaries(st.integers(0, 5), st.tuples(st.sampled_from(list(Op)), st.binary(max_size=2)), max_size=5)


@given(st.lists(rows, min_size=1, max_size=5), st.booleans())
def test_merged_rows_do_what_all_did_one_after_the_other(
    sources: list[dict[int, tuple[Op, bytes]]], bottom: bool
) -> None:
    as_rows: list[list[Row]] = [
        [(bytes((0, 0, 0, key % 2, key)), op, b"" if op == Op.REMOVE else value) for key, (op, value) in source.items()]
        for source in sources
    ]
    found = list(merged([sorted(source) for source in as_rows], frozenset({0}), bottom=bottom))
    keys = [key for key, _, _ in found]
    assert keys == sorted(set(keys))
    assert all(key[3] == 0 for key in keys)  # family 1 is no more
    for before in (None,) if bottom else (None, b"older"):
        for key in {row[0] for source in as_rows for row in source if row[0][3] == 0}:
            value = before
            for source in as_rows:
                for other, op, new in source:
                    if other == key:
                        value = outcome(value, (op, new))
            once = before
            for other, op, new in found:
                if other == key:
                    once = outcome(once, (op, new))
            assert once == value
    if bottom:
        assert {op for _, op, _ in found} <= {Op.PUT}


def test_a_run_stays_while_it_is_larger_than_what_is_merged() -> None:
    def kept(commits: int, *sizes: int) -> int:
        older = [Run(0, 5, (RunPart("5_a.run", size, 1, b"", b""),)) for size in sizes]
        young = [Run(n, n + 1, (RunPart("7_a.delta", 5, 1, b"", b""),)) for n in range(5, 5 + commits)]
        return runs_to_keep([*older, *young], merge_after=2, ratio=2.0)

    assert kept(1, 100) == 2  # one commit more stays a run by itself
    assert kept(2) == 0
    assert kept(2, 20) == 1
    assert kept(2, 19) == 0
    assert kept(2, 100, 30, 15) == 0  # 15 < 20, then 30 < 50, then 100 < 110
    assert kept(2, 110, 30, 15) == 1
    assert kept(2, 110, 50, 15) == 2


def test_do_snapshot_maintenance(opened: Opener, files: FailingFiles) -> None:
    """A snapshot after ten commits, which is all that a reader needs beside the commit itself."""
    provider = opened()
    provider.do_snapshot_maintenance()
    for version in range(10):
        assert names(files, ".snapshot") == []
        commit(provider, version, a=str(version), **{f"k{version}": "v"})
        provider.do_snapshot_maintenance()
    assert len(names(files, ".snapshot")) == len(names(files, ".run")) == 1
    for delta in names(files, ".delta"):
        if "/10_" not in delta:
            files.delete(delta)
    assert content(opened(), 10) == {"a": "9", **{f"k{version}": "v" for version in range(10)}}


def test_many_commits_are_merged_a_hundred_at_a_time(opened: Opener, files: FailingFiles) -> None:
    provider = opened()
    for version in range(215):
        commit(provider, version, **{f"k{version % 50}": str(version)})
    provider.do_snapshot_maintenance()
    made = sorted(int(name.rpartition("/")[2].partition("_")[0]) for name in names(files, ".snapshot"))
    assert made == [100, 200, 215]
    assert content(opened(), 215) == {f"k{version % 50}": str(version) for version in range(165, 215)}


def test_a_snapshot_names_commits_until_there_are_enough_to_merge(opened: Opener) -> None:
    provider = opened(min_deltas_for_snapshot=2, merge_after=5, versions_to_keep=3, grace=0.0)
    for version in range(12):
        commit(provider, version, a=str(version), **{f"k{version}": "v"})
        provider.do_maintenance()
        expected = {"a": str(version), **{f"k{older}": "v" for older in range(version + 1)}}
        assert content(opened(), version + 1) == expected
    history = provider._history
    shapes = {
        name.version: [(run.after, run.version) for run in history.snapshot(name).runs]
        for name in history.list().of_kind(Kind.SNAPSHOT)
    }
    assert shapes[10] == [(0, 6), (6, 7), (7, 8), (8, 9), (9, 10)]
    assert shapes[12] == [(0, 12)]


def test_merging_goes_on_in_another_file(opened: Opener, files: FailingFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    from milepost.state.store.format import files as state_files

    monkeypatch.setattr(state_files, "BATCH_BYTES", 100)
    provider = opened(min_deltas_for_snapshot=1, part_bytes=1000)
    expected = {f"{n:03}": "v" * 20 for n in range(200)}
    commit(provider, 0, **expected)
    provider.do_snapshot_maintenance()
    (snapshot,) = provider._history.list().snapshots[provider._newest or (0, "")]
    (run,) = provider._history.snapshot(snapshot).runs
    assert len(run.parts) == len(names(files, ".run")) == 5
    assert all(one.last < other.first for one, other in zip(run.parts, run.parts[1:], strict=False))
    assert sum(part.rows for part in run.parts) == 200
    assert content(opened(), 1) == expected


def test_what_is_merged_is_written_a_few_times(opened: Opener, files: FailingFiles) -> None:
    """All that is written, commits included, for 300 commits that change a fiftieth of the keys each."""
    provider = opened(versions_to_keep=20, merge_after=20)
    drawn = random.Random(7)
    commit(provider, 0, **{f"{n:04}": drawn.randbytes(50).hex() for n in range(5000)})
    provider.do_maintenance()
    first, files.bytes_written = files.bytes_written, 0
    for version in range(1, 301):
        commit(provider, version, **{f"{drawn.randrange(5000):04}": drawn.randbytes(50).hex() for _ in range(100)})
        provider.do_maintenance()
    deltas = 300 * 100 / 5000 * first
    assert files.bytes_written < 3.5 * deltas
    assert sum(info.size for info in files.list("0/0/default")) < 12 * first


def test_do_cleanup_maintenance(opened: Opener, files: FailingFiles) -> None:
    provider = opened(versions_to_keep=10, min_deltas_for_snapshot=4)
    provider.do_cleanup_maintenance()
    for version in range(50):
        commit(provider, version, a=str(version), **{f"k{version % 7}": str(version)})
        provider.do_maintenance()
    for version in range(41, 51):
        assert content(opened(), version)["a"] == str(version - 1)
    assert len(list(provider.changes(41, 50))) == 20
    with pytest.raises(VersionNotFound):
        content(opened(), 30)
    left = {int(name.rpartition("/")[2].partition("_")[0]) for name in names(files, "")}
    assert min(left) >= 36  # the newest snapshot that is not after version 41
    assert len(names(files, ".run")) <= 8


def test_what_is_pinned_stays(opened: Opener) -> None:
    provider = opened(versions_to_keep=3, min_deltas_for_snapshot=2, grace=0.0)
    for version in range(20):
        commit(provider, version, a=str(version))
        provider.do_maintenance()
        if version == 5:
            provider.pin("before-upgrade", 5)
    assert content(opened(), 5) == {"a": "4"}
    with pytest.raises(VersionNotFound):
        content(opened(), 6)
    provider.unpin("before-upgrade")
    provider.do_maintenance()
    with pytest.raises(VersionNotFound):
        content(opened(), 5)


def test_what_others_left_stays_for_a_while() -> None:
    """A commit that nobody went on from, a part of a run that no snapshot names, and a file that is nobody's."""
    now = [0.0]
    files = FailingFiles(MemoryFiles(lambda: now[0]))
    from milepost.state.store import FileStateStoreProvider, ProviderSettings, StateStoreId

    settings = ProviderSettings(maintenance_interval=None, versions_to_keep=2, min_deltas_for_snapshot=2, grace=100.0)
    provider, zombie = FileStateStoreProvider(files, settings), FileStateStoreProvider(files, settings)
    for one in (provider, zombie):
        one.init(StateStoreId(0, 0))
    ids = [commit(provider, 0, a="0")]
    left = commit(zombie, 1, ids[0], a="zombie")
    files.create("0/0/default/2_" + "0" * 32 + ".run", b"of a merge that ended early")
    files.create("0/0/default/README.txt", b"mine")
    for version in range(1, 10):
        ids.append(commit(provider, version, ids[-1], a=str(version)))
        provider.do_maintenance()
    strangers = ["0/0/default/2_" + "0" * 32 + ".run", f"0/0/default/2_{left}.delta"]
    present = names(files, "")
    assert set(strangers) < set(present)
    now[0] = 101.0
    provider.do_maintenance()
    assert set(names(files, "")) & {*strangers, "0/0/default/README.txt"} == {"0/0/default/README.txt"}
    assert content(provider, 10) == {"a": "9"}


def test_where_it_is_not_known_what_is_needed_nothing_is_removed(
    opened: Opener, files: FailingFiles, caplog: pytest.LogCaptureFixture
) -> None:
    provider = opened(versions_to_keep=4, min_deltas_for_snapshot=2, grace=0.0)
    for version in range(8):
        commit(provider, version, a=str(version))
        provider.do_snapshot_maintenance()
    place = files.files
    assert isinstance(place, MemoryFiles)
    damaged = [name for name in names(files, ".snapshot") if "/6_" in name]
    place._files[damaged[0]] = (b"", 0.0)
    before = names(files, "")
    with caplog.at_level(logging.WARNING):
        provider.do_cleanup_maintenance()
    assert names(files, "") == before
    assert "it is not known what is needed" in caplog.text


class Frozen(FailingFiles):
    """Does something else first, before it creates a snapshot."""

    meanwhile: Callable[[], None] | None = None

    def create(self, name: str, content: bytes) -> Created:
        if name.endswith(".snapshot") and (act := self.meanwhile) is not None:
            self.meanwhile = None
            act()
        return super().create(name, content)


def test_a_snapshot_that_names_what_others_removed_meanwhile_is_passed_over(
    opened: Opener, files: FailingFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker is frozen before it writes its snapshot. Others make one of an earlier version, and clean up."""
    provider = opened(versions_to_keep=2, min_deltas_for_snapshot=2)
    for version in range(6):
        commit(provider, version, a=str(version), **{f"k{version}": "v"})
        if version == 1:
            provider.do_snapshot_maintenance()
    settings = ProviderSettings(maintenance_interval=None, min_deltas_for_snapshot=2, merge_after=100)
    frozen_files = Frozen(files.files)
    frozen = FileStateStoreProvider(frozen_files, settings)
    frozen.init(StateStoreId(0, 0))
    frozen.get_store(6).abort()

    def meanwhile() -> None:
        other = opened(versions_to_keep=2, min_deltas_for_snapshot=2)
        other.get_store(4).abort()
        other.do_snapshot_maintenance()
        for version in (6, 7):
            commit(provider, version, a=str(version))
        provider.do_cleanup_maintenance()

    frozen_files.meanwhile = meanwhile
    frozen.do_snapshot_maintenance()
    assert sorted(int(name.rpartition("/")[2].partition("_")[0]) for name in names(files, ".snapshot")) == [4, 6]
    expected = {f"k{version}": "v" for version in range(6)}
    with caplog.at_level(logging.WARNING):
        assert content(opened(), 8) == {"a": "7", **expected}
    assert "it is not there, and the snapshot 6_" in caplog.text
    for version in range(8, 11):
        commit(provider, version, a=str(version))
        provider.do_cleanup_maintenance()
        assert content(opened(), version + 1) == {"a": str(version), **expected}
    provider.do_maintenance()
    assert content(opened(), 11) == {"a": "10", **expected}


def test_do_maintenance_that_fails_may_be_done_again(opened: Opener, files: FailingFiles) -> None:
    provider = opened(min_deltas_for_snapshot=1)
    commit(provider, 0, a="1")
    files.unreadable = True
    with pytest.raises(FilesError):
        opened(min_deltas_for_snapshot=1).get_store(1)
    files.unreadable = False
    provider.do_maintenance()
    assert len(names(files, ".snapshot")) == 1


class Counting:
    """Counts how often it is maintained."""

    def __init__(self, error: Exception | None = None) -> None:
        self.count = 0
        self.error = error

    def do_maintenance(self) -> None:
        self.count += 1
        if self.error is not None:
            raise self.error


def test_a_thread_maintains_what_was_added(caplog: pytest.LogCaptureFixture) -> None:
    thread = Maintenance()
    one, failing, faulty = Counting(), Counting(StateDamaged("a", "torn")), Counting(KeyError("a fault"))
    with caplog.at_level(logging.WARNING):
        thread.add(one, 0.01)
        thread.add(failing, 0.01)
        thread.add(faulty, 0.01)
        eventually(lambda: min(one.count, failing.count, faulty.count) > 2)
        for each in (one, failing, faulty):
            thread.remove(each)
        eventually(lambda: thread._thread is None)
    assert "a is damaged: torn" in caplog.text
    assert "KeyError: 'a fault'" in caplog.text
    count = one.count
    others = [Counting()]
    thread.add(others[0], 0.01)
    eventually(lambda: others[0].count > 2)
    assert one.count == count
    others.clear()
    gc.collect()
    eventually(lambda: thread._thread is None)


def test_a_provider_is_maintained_until_it_is_closed(opened: Opener, files: FailingFiles) -> None:
    provider = opened(maintenance_interval=0.01, min_deltas_for_snapshot=2)
    commit(provider, 0, a="1")
    commit(provider, 1, a="2")
    eventually(lambda: len(names(files, ".snapshot")) == 1)
    provider.close()


def test_maintenance_ends_with_the_process() -> None:
    script = (
        "from milepost.state.store import *\n"
        "p = FileStateStoreProvider(MemoryFiles(), ProviderSettings(maintenance_interval=0.001))\n"
        "p.init(StateStoreId(0, 0))\n"
        "s = p.get_store(0); s.commit()\n"
        "import os, time\n"
        "if os.fork() == 0:\n"  # a worker of PySpark's is forked, too
        "    s = p.get_store(1); s.commit(); os._exit(0)\n"
        "assert os.wait()[1] == 0\n"
        "print('end')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")
