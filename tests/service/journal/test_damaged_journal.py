"""A journal that cannot be read: the log says so, nothing is served from it, and once repaired it is served again."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from milepost.errors import Unavailable
from milepost_backends.embedded.pointers import FILE_NAME
from testbed.server import ServerProcess
from tests.service.acting import actor
from tests.support.network.faults import lose_answer
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.waiting import until

EXIT_MISCONFIGURED = 2
PAGE = 4096


async def add_one(directory: Path) -> Path:
    """A place with one handle in it; the file of its journal."""
    async with rig(embedded(directory)) as running:
        await (await actor(running, "a")).add("pointer", b"state")
    return directory / "pointers" / FILE_NAME


async def serves(running: Rig) -> None:
    """It leads, with the handle there, and takes another."""
    await running.leads()
    a = await actor(running, "a")
    assert await a.read("pointer") == b"state"
    await a.add("another", b"state")


def test_a_file_that_is_no_database_ends_the_start_and_repaired_it_serves(tmp_path: Path) -> None:
    file = asyncio.run(add_one(tmp_path))
    whole = file.read_bytes()
    file.write_bytes(b"not what it was " * 512)
    with ServerProcess(tmp_path) as server:
        server.start(until=None)
        assert server.wait() == EXIT_MISCONFIGURED
        assert f"cannot open {file}: file is not a database" in server.logged()
        assert "Traceback" not in server.logged()
        file.write_bytes(whole)
        server.start()
        assert server.status_of("/v1/stores/flights/handles/pointer/state") == 200


@pytest.mark.anyio
async def test_a_damaged_head_keeps_it_from_leading_until_it_is_repaired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a restart: it goes on trying to take the journal over."""
    file = await add_one(tmp_path)
    [(term,)] = _sql(file, "SELECT term FROM head")
    _sql(file, "UPDATE head SET term = 'nonsense'")
    async with rig(embedded(tmp_path), leading=False) as running:

        async def is_logged() -> bool:
            return (
                "cannot take the journal over yet: JournalDamaged(\"the stored head of journal 'root' is not valid"
                in caplog.text
            )

        await until(is_logged)
        assert not running.replica.leads
        with pytest.raises(Unavailable):
            await actor(running, "a")
        _sql(file, "UPDATE head SET term = ?", term)
        await serves(running)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "deed", ["the head", "a record", "all records", "a bit of the head", "the file", "another file", "an older file"]
)
async def test_what_a_foreign_hand_does_under_a_leader_is_put_right_from_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, deed: str
) -> None:
    """Its lease holds and no newer term wrote, so what it has in memory is the truth."""
    async with rig(embedded(tmp_path)) as running:
        file = tmp_path / "pointers" / FILE_NAME
        a = await actor(running, "a")
        await a.add("pointer", b"state")
        older = _sql(file, "SELECT * FROM head")
        file.with_name("older").write_bytes(_copy(file))
        a = a.under(epoch=await a.campaign())
        await a.replace("pointer", (await a.listing())[0].version, b"newer")
        if deed == "the head":
            _sql(file, "DELETE FROM head")
            _sql(file, "INSERT INTO head VALUES (?, ?, ?, ?, ?, ?)", *older[0])
        elif deed == "a bit of the head":
            _sql(file, "UPDATE head SET term = term | 64")
        elif deed == "the file":
            file.unlink()
        elif "file" in deed:
            if deed == "another file":
                file.with_name("older").write_bytes(b"nonsense" * 1000)
            file.with_name(f"{FILE_NAME}-wal").unlink()
            file.with_name("older").replace(file)
        else:
            _sql(file, f"DELETE FROM record WHERE key LIKE 'stores/%{'' if deed == 'all records' else '/pointer'}'")
            running.pointers.disturb(lose_answer())
        await a.add("another", b"state")
        assert await a.read("pointer") == b"newer"
        assert ("written anew from memory" in caplog.text) == ("head" in deed or "file" in deed)
        assert ("they are written back from memory: " in caplog.text) == ("record" in deed or "file" in deed)
        await running.stop()
        await running.restart()
        assert running.replica.journal.damaged == []
        assert (await a.names(), await a.read("pointer")) == (["another", "pointer"], b"newer")


@pytest.mark.anyio
async def test_records_that_do_not_add_up_are_not_served_until_their_owner_accepts_the_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An older copy of one record proves itself; together they do not prove themselves."""
    file = await add_one(tmp_path)
    kept = _sql(file, "SELECT key, value FROM record WHERE key LIKE '%/pointer'")
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.replace("pointer", (await a.listing())[0].version, b"newer")
    ((key, value),) = kept
    _sql(file, "UPDATE record SET value = ? WHERE key = ?", value, key)
    async with rig(embedded(tmp_path), leading=False) as running:

        async def is_logged() -> bool:
            return "at least one is missing, an older copy, or was put there by another program" in caplog.text

        await until(is_logged)
        assert not running.replica.leads
        assert running.replica.journal.unproven is not None
        (loss,) = set(re.findall("--accept-loss ([0-9a-f]{8})", caplog.text))
        await running.stop()
    accepting = replace(PROMPT, journal=replace(PROMPT.journal, accepted_losses=frozenset({loss})))
    async with rig(embedded(tmp_path), accepting) as running:
        assert f"accepted as the loss {loss}" in caplog.text
        assert (await (await actor(running, "b")).names()) == ["pointer"]
        await (await actor(running, "c")).add("another", b"state")
    async with rig(embedded(tmp_path)) as running:
        assert (await (await actor(running, "d")).names()) == ["another", "pointer"]


@pytest.mark.anyio
async def test_what_somebody_else_keeps_beside_the_records_is_named_and_spoils_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = await add_one(tmp_path)
    _sql(file, "INSERT INTO record (journal, key, value) VALUES ('root', 'notes', x'00')")
    async with rig(embedded(tmp_path)) as running:
        assert running.replica.journal.damaged == ["notes"]
        assert "the record notes of journal root is damaged and not served" in caplog.text
        await serves(running)


@pytest.mark.anyio
async def test_what_can_still_be_read_of_a_damaged_journal_is_not_served_without_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A pointer might be missing from it: the page that is damaged here is one of the records."""
    file = await add_one(tmp_path)
    [(root,)] = _sql(file, "SELECT rootpage FROM sqlite_master WHERE name = 'record'")
    assert isinstance(root, int)
    page = _swap(file, (root - 1) * PAGE, b"\xff" * PAGE)
    async with rig(embedded(tmp_path), leading=False) as running:

        async def is_logged() -> bool:
            return "pointers.db is damaged" in caplog.text

        await until(is_logged)
        assert not running.replica.leads
        await running.stop()
        _swap(file, (root - 1) * PAGE, page)
        await running.restart()
        await serves(running)


def _swap(file: Path, at: int, new: bytes) -> bytes:
    """Write ``new`` into the file at that place; what stood there."""
    with file.open("r+b") as opened:
        opened.seek(at)
        old = opened.read(len(new))
        opened.seek(at)
        opened.write(new)
    assert len(old) == len(new)
    return old


def _copy(file: Path) -> bytes:
    """As a backup made now has it."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.serialize()


def _sql(file: Path, statement: str, *parameters: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        return connection.execute(statement, parameters).fetchall()
