"""Damage in the file of the embedded pointer store: what can be read still is, and what cannot be is reported."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from milepost_backends.contract import Change, JournalDamaged, Refusal
from milepost_backends.embedded.pointers import RESERVE_NAME, WITNESS_NAME, EmbeddedPointers
from tests.contracts.journals import ROOT, put, records, refused, taken_over, writes

pytestmark = pytest.mark.anyio


def edit(file: Path, statement: str) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(statement)


def overwrite_middle(file: Path) -> None:
    """Three pages in the middle of the file."""
    content = bytearray(file.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 3 * 4096] = b"\xff" * (3 * 4096)
    file.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE head SET term = 'one'",
        "UPDATE head SET term = 0",
        "UPDATE head SET revision = -1",
        "UPDATE head SET revision = 1.5",
        "UPDATE head SET lineage = ''",
        "UPDATE head SET lineage = x'00'",
    ],
)
async def test_a_damaged_head_is_reported(store: EmbeddedPointers, file: Path, damage: str) -> None:
    head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
    edit(file, damage)
    with pytest.raises(JournalDamaged, match="root"):
        await store.take_over(ROOT)
    with pytest.raises(JournalDamaged, match="root"):
        await records(store, head)
    with pytest.raises(JournalDamaged, match="root"):
        await store.confirm(head)
    assert refused(await store.commit(head, writes(a=b"2"), head.revision + 1)) is Refusal.HEAD_MOVED
    assert (await store.take_over("other")).term == 1


async def test_the_name_of_a_loss_is_made_of_what_is_stored_and_of_no_message(
    store: EmbeddedPointers, file: Path
) -> None:
    """An owner may accept it in a later release, which words its messages anew; so what is hashed stands here whole."""
    head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
    edit(file, "UPDATE head SET revision = revision + 7")
    other = EmbeddedPointers(file.parent)  # which has no head of its own to go on from
    await store.close()
    await other.open()
    with pytest.raises(JournalDamaged) as caught:
        await other.take_over(ROOT)
    await other.close()
    row = (head.term, head.revision + 7, head.lineage, head.digest, head.check)
    witnessed = f"{head.term}/{head.revision}/{head.lineage}"
    evidence = f"root the head of 'root' is not a head: {row!r} no head {witnessed} True"
    assert caught.value.loss == hashlib.blake2b(evidence.encode(), digest_size=4).hexdigest()


@pytest.mark.parametrize(
    ("damage", "key", "value"),
    [
        ("UPDATE record SET value = 'text' WHERE key = 'b'", "b", b"text"),
        ("UPDATE record SET value = 42 WHERE key = 'b'", "b", b"42"),
        ("UPDATE record SET value = CAST(x'ff00fe' AS TEXT) WHERE key = 'b'", "b", b"\xff\x00\xfe"),
        ("UPDATE record SET value = zeroblob(0) WHERE key = 'b'", "b", b""),
        ("UPDATE record SET key = CAST(x'62ff' AS TEXT) WHERE key = 'b'", "b\\xff", b"2"),
        ("UPDATE record SET key = x'62' WHERE key = 'b'", "b", b"2"),
    ],
)
async def test_a_damaged_record_is_loaded_as_it_is_and_hides_no_other(
    store: EmbeddedPointers, file: Path, damage: str, key: str, value: bytes
) -> None:
    await put(store, await store.take_over(ROOT), writes(a=b"1", b=b"2", c=b"3"))
    edit(file, damage)
    assert (await taken_over(store))[1] == {"a": b"1", key: value, "c": b"3"}


async def test_a_damaged_page_is_reported(store: EmbeddedPointers, file: Path) -> None:
    await put(store, await store.take_over(ROOT), [Change(f"k{number}", b"x" * 1000) for number in range(500)])
    await store.close()
    overwrite_middle(file)
    await store.open()
    with pytest.raises(JournalDamaged, match="is damaged") as raised:
        await store.take_over(ROOT)
    await store.close()
    assert raised.value.loss is not None
    owners = EmbeddedPointers(file.parent, accept_loss={raised.value.loss})
    await owners.open()
    found = (await taken_over(owners))[1]
    assert 0 < len(found) < 500
    assert set(found.values()) == {b"x" * 1000}
    assert (file.parent / f"{file.name}.damaged-1").exists()
    await owners.close()


async def test_a_damaged_page_is_made_anew_by_who_leads(store: EmbeddedPointers, file: Path) -> None:
    """What was in it is remembered; what can be read is kept until that is written."""
    changes = [Change(f"k{number}", b"x" * 1000) for number in range(500)]
    ours = await put(store, await store.take_over(ROOT), changes)
    await store.close()
    overwrite_middle(file)
    await store.open()
    taken = await store.take_over(ROOT, ours)
    assert (taken.term, taken.revision, taken.digest) == (ours.term + 1, ours.revision + 1, ours.digest)
    assert (await records(store, taken)).items() <= dict(changes).items()
    assert (file.parent / f"{file.name}.damaged-1").exists()
    await put(store, taken, changes)
    assert (await taken_over(store))[1] == dict(changes)


def leave_empty(file: Path) -> None:
    """A file without a byte."""
    file.write_bytes(b"")


def below(directory: Path) -> set[str]:
    """The names of everything below."""
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*")}


def leave_only(directory: Path, left: str) -> None:
    """Delete all else; make it if it is not there."""
    for path in directory.iterdir():
        if path.name != left:
            path.unlink()
    (directory / left).parent.mkdir(parents=True, exist_ok=True)
    (directory / left).touch()


@pytest.mark.parametrize("left", ["leader.json", "blobs/1a2b3c/x", WITNESS_NAME])
@pytest.mark.parametrize("how", ["gone", "empty"])
async def test_a_journal_is_not_founded_anew_beside_what_is_left_of_another(
    store: EmbeddedPointers, file: Path, left: str, how: str
) -> None:
    await put(store, await store.take_over(ROOT), writes(a=b"1"))
    await store.close()
    leave_only(file.parent, left)
    if how == "empty":
        leave_empty(file)
    before = below(file.parent)
    with pytest.raises(JournalDamaged, match="is not founded anew") as raised:
        await store.open()
    assert left.partition("/x")[0] in str(raised.value)
    assert below(file.parent) - {RESERVE_NAME} == before


async def test_a_lost_tail_of_the_log_is_reported(store: EmbeddedPointers, file: Path, tmp_path: Path) -> None:
    """One changed byte: SQLite takes what came after it for never committed."""
    head = await store.take_over(ROOT)
    for number in range(20):
        head = await put(store, head, writes(**{f"k{number}": b"x"}))
    crashed = tmp_path / "crashed"
    shutil.copytree(file.parent, crashed, ignore=shutil.ignore_patterns("crashed"))
    log = crashed / f"{file.name}-wal"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    damaged = EmbeddedPointers(crashed)
    await damaged.open()
    with pytest.raises(JournalDamaged, match=rf"revisions \d+ to {head.revision} are lost"):
        await damaged.take_over(ROOT)
    await damaged.close()


async def test_a_crash_is_not_taken_for_damage(store: EmbeddedPointers, file: Path, tmp_path: Path) -> None:
    """After each commit the files are as a kill, or a power failure that lost the last of the witness, leaves them."""
    head = await store.take_over(ROOT)
    older = (file.parent / WITNESS_NAME).read_bytes()
    for number in range(10):
        head = await put(store, head, writes(**{f"k{number}": b"x"}))
        witness = (file.parent / WITNESS_NAME).read_bytes()
        torn = [witness[:4096] + b"\xff" * 100 + witness[4196:], b"\xff" * 100 + witness[100:]]
        for case, left in enumerate((witness, older, *torn)):
            crashed = tmp_path / f"crashed-{number}-{case}"
            shutil.copytree(file.parent, crashed, ignore=shutil.ignore_patterns("crashed*", RESERVE_NAME))
            (crashed / WITNESS_NAME).write_bytes(left)
            after = EmbeddedPointers(crashed)
            await after.open()
            assert (await after.take_over(ROOT)).revision == head.revision + 1
            await after.close()
        older = witness


async def test_a_witness_that_is_gone_is_reported_and_written_anew(
    store: EmbeddedPointers, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await put(store, await store.take_over(ROOT), writes(a=b"1"))
    (file.parent / WITNESS_NAME).unlink()
    await store.take_over(ROOT)
    assert "the witness of journal 'root' is gone: it is written anew from the database" in caplog.text
    caplog.clear()
    await store.take_over(ROOT)
    assert "witness" not in caplog.text


async def test_a_log_that_is_deleted_in_use_loses_nothing(store: EmbeddedPointers, file: Path) -> None:
    head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
    file.with_name(f"{file.name}-wal").unlink()
    head = await put(store, head, writes(b=b"2"))
    assert file.with_name(f"{file.name}-wal").exists()
    await store.close()
    await store.open()
    assert (await taken_over(store))[1] == {"a": b"1", "b": b"2"}
