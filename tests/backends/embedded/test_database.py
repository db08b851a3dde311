"""Opening the SQLite file: fresh, ours, somebody else's, damaged, from a newer release, or in use."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from milepost_backends.contract import BackendError, JournalDamaged, Misconfigured, StorageUnavailable
from milepost_backends.disk import filesystem as local_filesystem
from milepost_backends.disk.filesystem import FileIdentity
from milepost_backends.embedded.database import APPLICATION_ID, SCHEMA_VERSION, connect, prepare_directory
from milepost_backends.embedded.pointers import EmbeddedPointers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pointers.db"


def opened(path: Path, *, create: bool = True) -> sqlite3.Connection:
    return connect(path, 0.2, create=create)


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_a_fresh_file_is_durable_and_marked(path: Path) -> None:
    with closing(opened(path)) as connection:
        settings = {name: pragma(connection, name) for name in ("journal_mode", "synchronous", "fullfsync")}
        assert settings == {"journal_mode": "wal", "synchronous": 2, "fullfsync": 1}
        assert pragma(connection, "application_id") == APPLICATION_ID
        assert pragma(connection, "user_version") == SCHEMA_VERSION
        assert not connection.in_transaction


def test_the_directory_of_a_fresh_file_is_synced(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    synced = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(FileIdentity.of(descriptor))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    opened(path).close()
    assert FileIdentity.of(path.parent) in synced


def test_a_path_with_odd_characters_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%41&mode=ro" / "pointers.db"
    prepare_directory(path)
    opened(path).close()
    assert path.exists()


def test_opening_again_changes_nothing(path: Path) -> None:
    with closing(opened(path)) as connection:
        connection.execute("INSERT INTO head VALUES ('root', 1, 1, 'a', 'd', 'c')")
    with closing(opened(path)) as first, closing(opened(path, create=False)) as second:
        for connection in (first, second):
            assert connection.execute("SELECT * FROM head").fetchall() == [("root", 1, 1, "a", "d", "c")]


def test_an_empty_file_is_made_a_database(path: Path) -> None:
    path.touch()
    with closing(opened(path)) as connection:
        assert pragma(connection, "user_version") == SCHEMA_VERSION


def test_many_at_once_make_one_database(path: Path) -> None:
    together = threading.Barrier(8)
    ends: list[object] = []

    def open_one() -> None:
        together.wait()
        try:
            connect(path, 30, create=True).close()
            ends.append("open")
        except BackendError as error:
            ends.append(error)

    threads = [threading.Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == ["open"] * 8
    opened(path).close()


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    opened(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(Misconfigured, match=f"schema {SCHEMA_VERSION + 1}.*newer release"):
        opened(path)
    with closing(sqlite3.connect(path)) as connection:
        assert pragma(connection, "user_version") == SCHEMA_VERSION + 1


def test_somebody_elses_database_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE accounts (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(Misconfigured, match="not one of Milepost's"):
        opened(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_damaged_and_left_alone(path: Path) -> None:
    before = b"this is not a database at all; " * 500
    path.write_bytes(before)
    with pytest.raises(JournalDamaged, match=r"cannot open .*not a database"):
        opened(path)
    assert path.read_bytes() == before


def test_a_truncated_database_is_damaged(path: Path) -> None:
    with closing(opened(path)) as connection:
        connection.execute("INSERT INTO record (journal, key, value) VALUES ('root', 'a', zeroblob(100000))")
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(JournalDamaged):
        opened(path)


def test_a_database_that_another_process_writes_to_for_long_is_unavailable(path: Path) -> None:
    opened(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageUnavailable, match="locked"):
            opened(path)
        other.execute("ROLLBACK")
        opened(path).close()


def test_a_file_that_is_absent_is_made_only_when_asked_for(path: Path) -> None:
    with pytest.raises(StorageUnavailable):
        opened(path, create=False)
    assert not path.exists()


def test_what_cannot_be_a_directory_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "pointers.db", tmp_path / "file" / "below" / "pointers.db"):
        with pytest.raises(Misconfigured, match="file"):
            prepare_directory(path)


def test_a_directory_on_a_network_file_system_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No such mount can be made here, so the kernel's table of mounts is a file of the test's."""
    table = tmp_path / "mountinfo"
    table.write_text(f"27 1 0:40 / {tmp_path.resolve()} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr(local_filesystem, "MOUNTINFO", table)
    with pytest.raises(Misconfigured, match="nfs4"):
        prepare_directory(tmp_path / "data" / "pointers.db")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("founded", [False, True])
@pytest.mark.parametrize("name", ["pointers.db", "pointers.db-wal", "pointers.witness"])
def test_a_directory_in_the_place_of_a_file_is_no_outage(tmp_path: Path, name: str, founded: bool) -> None:
    """Nobody but an operator takes it away, so waiting does not help."""

    async def found() -> None:
        pointers = EmbeddedPointers(tmp_path)
        await pointers.open()
        await pointers.take_over("root")
        await pointers.close()

    if founded:
        asyncio.run(found())
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    with pytest.raises(Misconfigured):
        asyncio.run(EmbeddedPointers(tmp_path).open())
