"""Damage in the file of the embedded pointer store: what can be read still is, and what cannot be is told."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from backends.contract import Change, JournalDamaged, Refusal
from backends.pointers.embedded import EmbeddedPointers
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
async def test_a_damaged_head_is_told(store: EmbeddedPointers, file: Path, damage: str) -> None:
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


async def test_a_damaged_page_is_told(store: EmbeddedPointers, file: Path) -> None:
    await put(store, await store.take_over(ROOT), [Change(f"k{number}", b"x" * 1000) for number in range(500)])
    await store.close()
    overwrite_middle(file)
    await store.open()
    head = await store.take_over(ROOT)
    with pytest.raises(JournalDamaged, match="cannot load 'root'"):
        await records(store, head)
