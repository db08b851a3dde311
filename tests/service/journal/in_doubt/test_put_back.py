"""Records that were damaged, and put back as they were: all is proven again. What explains a digest that differs, and
what does not.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from milepost.errors import Corrupt
from milepost_backends.embedded.pointers import FILE_NAME
from milepost_server.model.checksums import seal
from milepost_server.model.records import Session, Upload, encode, handle_key, session_key, upload_key
from tests.service.acting import STORE, actor
from tests.support.network.faults import lose_answer
from tests.support.network.rewriting import commit
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

NAMES = ["a", "b", "c"]
WITHOUT_CHECKSUM = b"\x00\x01"
REFUSAL = "at least one is missing, an older copy, or was put there by another program"


@dataclass(frozen=True)
class Hand:
    """A foreign hand at the embedded records below a directory."""

    directory: Path

    def _sql(self, statement: str, *parameters: object) -> list[tuple[bytes]]:
        with closing(sqlite3.connect(self.directory / "pointers" / FILE_NAME, isolation_level=None)) as connection:
            return connection.execute(statement, parameters).fetchall()

    def value(self, key: str) -> bytes:
        ((value,),) = self._sql("SELECT value FROM record WHERE key = ?", key)
        return value

    def put(self, key: str, value: bytes) -> None:
        self._sql("INSERT OR REPLACE INTO record (journal, key, value) VALUES ('root', ?, ?)", key, value)

    def delete(self, key: str) -> None:
        self._sql("DELETE FROM record WHERE key = ?", key)

    def damage(self, *keys: str) -> dict[str, bytes]:
        """Take their checksums away with all else; what they were."""
        before = {key: self.value(key) for key in keys}
        for key in keys:
            self.put(key, WITHOUT_CHECKSUM)
        return before

    def put_back(self, values: dict[str, bytes], *keys: str) -> None:
        for key in keys:
            self.put(key, values[key])

    def commit(self, key: str, value: bytes) -> None:
        """Put it there as a leader of another release would."""
        commit(self.directory, key, value)


def keys(*names: str) -> list[str]:
    return [handle_key(STORE, name) for name in names]


async def filled(directory: Path) -> Hand:
    """A place with three handles in it."""
    async with rig(embedded(directory)) as running:
        a = await actor(running, "a")
        for name in NAMES:
            await a.add(name, name.encode())
    return Hand(directory)


async def serves(running: Rig, names: Sequence[str]) -> None:
    b = await actor(running, "b")
    assert await b.names() == sorted(names)
    for name in names:
        assert await b.read(name) == name.encode()


async def work_beside(directory: Path, damaged: Sequence[str], remove: Sequence[str] = ()) -> None:
    """Somebody leads, names what is damaged, changes other records and removes some of these."""
    async with rig(embedded(directory)) as running:
        assert running.replica.journal.damaged == keys(*damaged)
        a = await actor(running, "a")
        for name in damaged:
            with pytest.raises(Corrupt):
                await a.read(name)
        await a.add("beside", b"beside")
        for name in remove:
            assert (await a.remove(name)).removed


async def proves(directory: Path, names: Sequence[str], caplog: pytest.LogCaptureFixture) -> None:
    """It leads, nothing is damaged, and nothing had to be explained."""
    caplog.clear()
    async with rig(embedded(directory)) as running:
        assert running.replica.journal.damaged == []
        assert "are not those of its last commit" not in caplog.text
        await serves(running, names)


async def refused(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody leads, since what is there does not add up."""
    caplog.clear()
    async with rig(embedded(directory), leading=False) as running:

        async def is_logged() -> bool:
            return REFUSAL in caplog.text or running.replica.leads

        await until(is_logged)
        assert not running.replica.leads


@pytest.mark.parametrize("damaged", [["b"], ["a", "b"]], ids=["one", "two"])
async def test_what_was_damaged_and_is_put_back_as_it_was_is_proven_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: list[str]
) -> None:
    hand = await filled(tmp_path)
    before = hand.damage(*keys(*damaged))
    await work_beside(tmp_path, damaged)
    hand.put_back(before, *before)
    await proves(tmp_path, [*NAMES, "beside"], caplog)


async def test_what_is_put_back_may_come_one_after_the_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hand = await filled(tmp_path)
    before = hand.damage(*keys("a", "b"))
    await work_beside(tmp_path, ["a", "b"])
    hand.put_back(before, *keys("a"))
    async with rig(embedded(tmp_path)) as running:
        assert running.replica.journal.damaged == keys("b")
        assert (await (await actor(running, "a")).remove("b")).removed
    await proves(tmp_path, ["a", "c", "beside"], caplog)


async def test_one_of_several_may_be_removed_and_another_put_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the sum of what their hashes were is known, so the hash of the one removed is unknown; that is logged."""
    hand = await filled(tmp_path)
    before = hand.damage(*keys("a", "b"))
    await work_beside(tmp_path, ["a", "b"], remove=["a"])
    hand.put_back(before, *keys("b"))
    async with rig(embedded(tmp_path)) as running:
        assert running.replica.journal.damaged == []
        assert "1 of the records that were damaged" in caplog.text
        await serves(running, ["b", "c", "beside"])
    await proves(tmp_path, ["b", "c", "beside"], caplog)


async def test_once_all_that_were_damaged_are_removed_the_rest_is_proven(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hand = await filled(tmp_path)
    older = hand.value(handle_key(STORE, "c"))
    hand.damage(*keys("a", "b"))
    await work_beside(tmp_path, ["a", "b"], remove=["a", "b"])
    await proves(tmp_path, ["c", "beside"], caplog)
    async with rig(embedded(tmp_path)) as running:
        c = await actor(running, "c")
        await c.lock("c")
        await c.replace("c", (await c.listing())[1].version, b"newer")
    hand.put(handle_key(STORE, "c"), older)
    await refused(tmp_path, caplog)


async def test_a_record_that_is_put_back_under_the_leader_is_served_after_its_next_take_over(tmp_path: Path) -> None:
    hand = await filled(tmp_path)
    before = hand.damage(*keys("a"))
    async with rig(embedded(tmp_path)) as running:
        hand.put_back(before, *before)
        running.pointers.disturb(lose_answer())
        b = await actor(running, "b")
        assert await b.read("a") == b"a"
        assert running.replica.journal.damaged == []
        await running.restart()
        await serves(running, NAMES)


async def test_what_is_put_back_under_the_leader_runs_out_as_it_would_have(tmp_path: Path) -> None:
    """Or a session whose client is gone would keep its locks for as long as this leader leads."""
    session, upload = session_key("s"), upload_key(STORE, "u")
    hand = await filled(tmp_path)
    hand.commit(session, encode(session, Session("s", 10.0, 1)))
    hand.commit(upload, encode(upload, Upload("u", "flights/1/u", 3, "ab", "s", 20.0, 1)))
    before = hand.damage(session, upload)
    async with rig(embedded(tmp_path)) as running:
        assert running.replica.journal.damaged == [session, upload]
        hand.put_back(before, *before)
        running.pointers.disturb(lose_answer())
        await actor(running, "b")
        view = running.replica.journal.read().view
        assert view.session("s") == Session("s", 10.0, 1)
        assert 0.0 < running.replica.leases.expires_in("s") <= 10.0
        running.clock.advance(21.0)

        async def both_ended() -> bool:
            found = view.session("s"), view.upload(STORE, "u")
            return all(isinstance(record, Session | Upload) and record.ended > 0 for record in found)

        await until(both_ended)


async def test_an_older_copy_of_a_damaged_record_is_not_taken_for_it(tmp_path: Path) -> None:
    """What its hash was is known, as it is the only one that is damaged."""
    hand = await filled(tmp_path)
    older = hand.value(handle_key(STORE, "a"))
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.replace("a", (await a.listing())[0].version, b"newer")
    hand.damage(*keys("a"))
    async with rig(embedded(tmp_path)) as running:
        hand.put(handle_key(STORE, "a"), older)
        running.pointers.disturb(lose_answer())
        b = await actor(running, "b")
        with pytest.raises(Corrupt):
            await b.read("a")
        assert running.replica.journal.damaged == keys("a")
        assert (await b.remove("a")).removed
        await running.restart()
        await serves(running, ["b", "c"])


async def test_a_damaged_record_that_is_deleted_in_the_store_is_missed_until_it_is_removed_through_the_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody knows what was in it. An epoch, say: it would begin anew."""
    hand = await filled(tmp_path)
    hand.damage(*keys("a"))
    async with rig(embedded(tmp_path)) as running:
        hand.delete(handle_key(STORE, "a"))
        running.pointers.disturb(lose_answer())
        b = await actor(running, "b")
        with pytest.raises(Corrupt):
            await b.read("a")
        assert (await b.remove("a")).removed
    await proves(tmp_path, ["b", "c"], caplog)


async def test_after_a_loss_was_accepted_damaged_records_may_be_put_back_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hand = await filled(tmp_path)
    before = hand.damage(*keys("a"))
    hand.delete(handle_key(STORE, "b"))
    await refused(tmp_path, caplog)
    (loss,) = set(re.findall("--accept-loss ([0-9a-f]{8})", caplog.text))
    accepting = replace(PROMPT, journal=replace(PROMPT.journal, accepted_losses=frozenset({loss})))
    async with rig(embedded(tmp_path), accepting) as running:
        assert running.replica.journal.damaged == keys("a")
        await (await actor(running, "a")).add("beside", b"beside")
    hand.put_back(before, *before)
    async with rig(embedded(tmp_path)) as running:
        await serves(running, ["a", "c", "beside"])
    await proves(tmp_path, ["a", "c", "beside"], caplog)


async def older_copy(directory: Path) -> tuple[Hand, bytes]:
    """A handle was replaced since this copy of its record was made."""
    hand = await filled(directory)
    older = hand.value(handle_key(STORE, "a"))
    async with rig(embedded(directory)) as running:
        a = await actor(running, "a")
        await a.replace("a", (await a.listing())[0].version, b"newer")
    return hand, older


NEWER = b'{"name":"b","schema":99}'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("notes", b"somebody else's"),
        ("handles/notes", b"somebody else's"),
        (f"others/{STORE}/handles/notes", b"somebody else's"),
        (handle_key(STORE, "d"), seal(handle_key(STORE, "d"), NEWER)),
    ],
    ids=["a stranger's", "a stranger's handle", "a stranger's store", "of a newer release"],
)
async def test_what_cannot_be_read_and_was_not_damaged_explains_no_older_copy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: str, value: bytes
) -> None:
    hand, older = await older_copy(tmp_path)
    if key.endswith("notes"):
        hand.put(key, value)
    else:
        hand.commit(key, value)
    async with rig(embedded(tmp_path)) as running:
        assert running.replica.journal.damaged == [key]
    hand.put(handle_key(STORE, "a"), older)
    await refused(tmp_path, caplog)


async def test_a_sealed_record_of_a_kind_that_this_release_does_not_know_counts_and_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer release leads, writes one, and hands over to this one in the middle of an upgrade."""
    hand = await filled(tmp_path)
    sealed = {key: seal(key, b'{"id":"x","schema":1}') for key in ("futures/x", "futures/y")}
    hand.commit("futures/x", sealed["futures/x"])
    async with rig(embedded(tmp_path)) as running:
        assert running.replica.journal.damaged == ["futures/x"]
        hand.put("futures/y", sealed["futures/y"])
        running.pointers.disturb(lose_answer())
        await serves(running, NAMES)
        assert running.replica.journal.damaged == ["futures/x", "futures/y"]
    caplog.clear()
    async with rig(embedded(tmp_path)) as running:
        assert "are not those of its last commit" not in caplog.text
        assert {key: hand.value(key) for key in sealed} == sealed
        await serves(running, NAMES)
