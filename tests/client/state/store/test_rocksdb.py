"""What RocksDB has to do beside what every engine does: leave nothing behind, and stay within its memory."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from milepost.state.errors import EngineFailed, InvalidUse
from milepost.state.store import FileStateStoreProvider, MemoryFiles, ProviderSettings, StateStoreId
from milepost.state.store.engines.engine import Engine
from milepost.state.store.engines.rocksdb import RocksDBEngine, RocksDBEngines
from milepost.state.store.writing_store import FileStateStore
from tests.client.state.support.full_disk import full_disk


def test_nothing_is_left_of_a_base_that_was_closed(tmp_path: Path) -> None:
    engine = RocksDBEngines(tmp_path / "cache")()
    engine.apply([(b"a", b"1")])
    pairs = engine.scan(b"", None)
    assert next(pairs) == (b"a", b"1")
    assert len(list((tmp_path / "cache").iterdir())) == 2
    engine.close()
    assert list((tmp_path / "cache").iterdir()) == []
    with pytest.raises(EngineFailed):
        engine.get_many([b"a"])


def test_leftovers_of_a_killed_process_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from milepost.state.store.engines.rocksdb import RocksDBEngines\n"
        "engine = RocksDBEngines(sys.argv[1])()\n"
        "engine.apply([(b'a', b'1')])\n"
        "print('open', flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        mine = RocksDBEngines(tmp_path)()
        assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()  # type: ignore[union-attr]
    RocksDBEngines(tmp_path)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1
    mine.apply([(b"b", b"2")])
    assert mine.get_many([b"a", b"b"]) == [None, b"2"]
    mine.close()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where two users share ``/tmp``: the tests may run as root, whom no mode keeps out."""
    theirs = RocksDBEngines(tmp_path)()
    lock = next(tmp_path.glob("*.lock"))
    opened = os.open

    def refuse(path: str | Path, *how: int, **place: Any) -> int:
        if Path(path) == lock:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *how, **place)

    monkeypatch.setattr(os, "open", refuse)
    mine = RocksDBEngines(tmp_path)()
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2
    mine.close()
    theirs.close()


FORKS = """
import os, signal, sys
from milepost.state.errors import EngineFailed
from milepost.state.store.engines.rocksdb import RocksDBEngines
engines = RocksDBEngines(sys.argv[1], memory_bytes=8 << 20)
engine = engines()
engine.apply([(b'a', b'1')])
child = os.fork()
if child == 0:
    signal.alarm(60)
    for use in (lambda: engine.apply([(b'a', b'2')]), engines, lambda: RocksDBEngines(sys.argv[1])()):
        try:
            use()
        except EngineFailed as error:
            print(error, flush=True)
    engine.close()
    del engine, engines
    sys.exit()
assert os.waitpid(child, 0)[1] == 0, 'it hung'
assert engine.get_many([b'a']) == [b'1']
for part in range(20):  # more than stays in memory
    engine.apply([(b'%d %d' % (part, n), os.urandom(1000)) for n in range(1000)])
assert engine.get_many([b'a']) == [b'1']
engine.close()
"""


def test_a_process_that_was_forked_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    """RocksDB's threads are in the other process, and whoever waits for them in this one waits for ever."""
    command = [sys.executable, "-c", FORKS, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("forked") == 3
    assert list(tmp_path.iterdir()) == []


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """Eight times as much as it may take, read and written all over."""
    engines = RocksDBEngines(tmp_path, memory_bytes=8 << 20)
    engine = engines()
    value = bytes(range(256)) * 4
    most = 0
    for begin in range(0, 65536, 4096):
        engine.apply([((n * 40503 % 65536).to_bytes(4, "big"), value) for n in range(begin, begin + 4096)])
        most = max(most, engine.memory_bytes())
    for n in range(0, 65536, 64):
        assert engine.get_many([n.to_bytes(4, "big")]) == [value]
        most = max(most, engine.memory_bytes())
    assert sum(1 for _ in engine.scan(b"", None)) == 65536
    assert max(most, engine.memory_bytes()) < 24 << 20
    engine.close()


def test_a_full_disk_is_told_and_closing_gives_back_what_was_taken_of_it(tmp_path: Path) -> None:
    engines = RocksDBEngines(tmp_path, memory_bytes=8 << 20)
    engine = engines()

    def fill() -> None:
        for n in range(10_000):
            engine.apply([((n * 100 + k).to_bytes(4, "big"), random.randbytes(200)) for k in range(100)])

    with full_disk():
        with pytest.raises(EngineFailed):
            fill()
        engine.close()
        assert list(tmp_path.iterdir()) == []
    another = engines()
    another.apply([(b"a", b"1")])
    assert another.get_many([b"a"]) == [b"1"]
    another.close()


def damage(engine: Engine) -> None:
    """Change what is in the middle of each of RocksDB's files of keys and values, which are open."""
    assert isinstance(engine, RocksDBEngine)
    engine._database.compact_range(None, None)
    paths = list(engine._directory.path.glob("*.sst"))
    assert paths
    for path in paths:
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            file.write(b"damaged!" * 500)


def test_a_scan_does_not_end_where_the_disk_is_damaged(tmp_path: Path) -> None:
    """RocksDB's iterators end there as they do behind the last key."""
    engine = RocksDBEngines(tmp_path, memory_bytes=8 << 20)()
    keys = [n.to_bytes(4, "big") for n in range(6_000)]
    for begin in range(0, len(keys), 1000):
        engine.apply([(key, random.randbytes(4000)) for key in keys[begin : begin + 1000]])
    assert [key for key, _ in engine.scan(b"", None)] == keys
    assert [key for key, _ in engine.scan(keys[-2] + b"0", None)] == keys[-1:]
    assert list(engine.scan(keys[-1] + b"0", None)) == []
    damage(engine)
    for start, end in ((b"", None), (b"", keys[-1]), (keys[100], keys[-1] + b"0")):
        with pytest.raises(EngineFailed, match="Corruption"):
            list(engine.scan(start, end))
    engine.close()


def test_a_store_whose_copy_is_damaged_says_so_and_is_loaded_anew(tmp_path: Path) -> None:
    engines = RocksDBEngines(tmp_path / "cache", memory_bytes=8 << 20)
    provider = FileStateStoreProvider(MemoryFiles(), ProviderSettings(engines=engines, maintenance_interval=None))
    provider.init(StateStoreId(0, 0))
    store = provider.get_store(0)
    store.create_column_family_if_absent("other")
    for n in range(6_000):
        store.put(b"%05d" % n, random.randbytes(4000), "other")
    store.commit()
    store = provider.get_store(1)
    assert isinstance(store, FileStateStore)
    damage(store._loaded.engine)
    store.remove_column_family_if_exists("other")
    with pytest.raises(EngineFailed, match="Corruption"):  # it would have left keys that nobody counts
        store.commit()
    store.abort()
    store = provider.get_store(1)
    assert sum(1 for _ in store.iterator("other")) == 6_000
    store.remove_column_family_if_exists("other")
    assert store.commit() == 2
    assert store.metrics.num_keys == 0
    provider.close()


@pytest.mark.parametrize("instead", ["nothing", "a file", "an empty directory"])
def test_a_directory_that_goes_below_an_open_store_costs_no_commit(tmp_path: Path, instead: str) -> None:
    """A cleaner of ``/tmp``, say. What is committed is in the files; the copy is closed, and made anew."""
    cache = tmp_path / "cache"
    settings = ProviderSettings(engines=RocksDBEngines(cache), maintenance_interval=None, idle_engines=0)
    provider = FileStateStoreProvider(MemoryFiles(), settings)
    provider.init(StateStoreId(0, 0))
    store = provider.get_store(0)
    store.put(b"a", b"1")
    shutil.rmtree(cache)
    if instead == "a file":
        cache.write_bytes(b"")
    elif instead == "an empty directory":
        cache.mkdir()
    assert store.commit() == 1
    if instead == "a file":
        with pytest.raises(EngineFailed):
            provider.get_store(1)
        cache.unlink()
    again = provider.get_store(1)
    assert list(again.iterator()) == [(b"a", b"1")]
    again.abort()
    assert list(cache.iterdir()) == []
    provider.close()


def test_a_base_that_cannot_be_opened_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError("No space left on device")

    engines = RocksDBEngines(tmp_path)
    monkeypatch.setattr("rocksdict.Rdict", fails)
    with pytest.raises(EngineFailed, match="No space left"):
        engines()
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidUse):
        RocksDBEngines(tmp_path, memory_bytes=1000)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    began = time.monotonic()
    with pytest.raises(EngineFailed):
        RocksDBEngines(tmp_path / "file")()
    assert time.monotonic() - began < 60
