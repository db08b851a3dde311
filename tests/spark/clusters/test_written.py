"""What tells a late write of a fenced driver would tell one if there were one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from milepost_backends.embedded.pointers import FILE_NAME
from milepost_server.model.paths import path_key
from milepost_server.model.records import encode
from milepost_server.model.trees import Entry, TreePath
from testbed.server import ServerProcess
from tests.spark.clusters.written import Birth, Written
from tests.wire.support.api import Api, connect
from tests.wire.webhdfs.hadoop import Tree, refused


def test_a_late_write_would_be_told(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, pointers=f"embedded:{tmp_path}") as server,
        connect(server.start().url) as http,
    ):
        written = Written(tmp_path)
        api = Api.on(http, "flights")
        old = Tree(http, "flights", api.campaign().json()["epoch"])
        assert old.create("first", b"x").status_code == 201
        assert old.delete("first").status_code == 200
        api.resign()
        new = old.under(api.other().campaign().json()["epoch"])
        assert new.create("second", b"x").status_code == 201
        refused(old.create("third", b"x"), 403, "AccessControlException")
        births = {birth.path: birth for birth in written.births("flights")}
        assert {path: birth.epoch for path, birth in births.items()} == {"first": 1, "second": 2}
        assert written.grants("flights")[1] < births["first"].created_revision < written.grants("flights")[2]
        assert written.late("flights") == []

        key, late = path_key("flights", "third"), births["second"].created_revision + 1
        record = TreePath("third", (Entry(late, "2026-01-01T00:00:00.000Z", 1),))
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
            database.execute("INSERT INTO written (key, value) VALUES (?, ?)", (key, encode(key, record)))
            database.commit()
        assert written.late("flights") == [Birth("third", late, 1)]


def test_what_was_written_before_a_restart_is_still_known_after_it(tmp_path: Path) -> None:
    """A server refuses a database with a table that is not its own, so it is put aside meanwhile."""
    place = tmp_path / "service"
    with ServerProcess(place, pointers=f"embedded:{place}") as server, connect(server.start().url) as http:
        written = Written(place)
        api = Api.on(http, "flights")
        tree = Tree(http, "flights", api.campaign().json()["epoch"])
        assert tree.create("dropped", b"x").status_code == 201
        assert tree.delete("dropped").status_code == 200
        server.kill()
        written.put_aside()
        server.start()
        written.follow()
        assert tree.create("kept", b"x").status_code == 201
        assert {birth.path for birth in written.births("flights")} == {"dropped", "kept"}
        assert sorted(written.grants("flights")) == [1]
        assert written.late("flights") == []


def test_what_a_service_keeps_as_damaged_is_put_aside_too(tmp_path: Path) -> None:
    """A service that stood still for long keeps its database, with the table in it, and goes on with a new one."""
    place = tmp_path / "service"
    place.mkdir()

    def write(path: str, revision: int) -> None:
        record = TreePath(path, (Entry(revision, "2026-01-01T00:00:00.000Z", 1),))
        key = path_key("flights", path)
        with closing(sqlite3.connect(place / FILE_NAME)) as database:
            database.execute("CREATE TABLE IF NOT EXISTS record (key TEXT PRIMARY KEY, value BLOB)")
            database.execute("INSERT INTO record (key, value) VALUES (?, ?)", (key, encode(key, record)))
            database.commit()

    write("first", 1)
    written = Written(place)
    write("second", 2)
    assert written.followed
    (place / FILE_NAME).rename(place / f"{FILE_NAME}.damaged-1")
    write("third", 3)
    assert not written.followed
    written.put_aside()
    written.follow()
    write("fourth", 4)
    assert {birth.path for birth in written.births("flights")} == {"first", "second", "third", "fourth"}
