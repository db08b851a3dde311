"""Stored records: their keys, their JSON, and what becomes of those that cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import msgspec
import pytest

from milepost_server.model.answered import SCHEMA, WITH_DATA, Answered
from milepost_server.model.checksums import seal
from milepost_server.model.paths import path_key
from milepost_server.model.records import (
    Corrupt,
    Handle,
    Lock,
    Session,
    Store,
    Stored,
    Upload,
    decode,
    encode,
    handle_key,
    handle_of,
    is_ours,
    session_key,
    store_key,
    store_of,
    tree_key,
    upload_key,
    upload_of,
)
from milepost_server.model.trees import (
    Entry,
    Manifest,
    RangeTombstone,
    Rollback,
    Savepoint,
    Tree,
    TreePath,
    TreeSnapshot,
)

Damage = Callable[[bytes], bytes]

ANSWERED = Answered("s", "k", "f", 7, {"body": {"removed": True}})
HANDLE = Handle(
    name="h",
    version="l.5",
    blob="flights/1/b",
    size=3,
    sha256="ab",
    created="then",
    updated="now",
    created_revision=4,
    changed=5,
    labels={"batch": "7"},
    locks=(Lock("s", 1, 4),),
    freed=(Lock("t", 2, 5),),
    epoch=1,
    removing=True,
    answered=(ANSWERED,),
    evicted_answers_at=3,
)
GONE = Entry(2, "then", 1, size=3, sha256="ab", blob="flights/1/u", moved_from="offsets/.7.tmp", deleted_revision=4)
THERE = Entry(4, "now", 2, size=2, sha256="cd", data=b"v1")
RECORDS: list[tuple[str, Stored]] = [
    (session_key("s"), Session("s", 15.0, 1, "me", 9, (ANSWERED,), 2, "driver")),
    (
        store_key("flights"),
        Store("flights", 2, "s", 1, "then", 3, (Lock("s", 1, 2),), (Lock("t", 1, 2),), (ANSWERED,), 4, 2),
    ),
    (handle_key("flights", "h"), HANDLE),
    (handle_key("flights", "g"), msgspec.structs.replace(HANDLE, name="g").holding("", b"v1")),
    (upload_key("flights", "u"), Upload("u", "flights/1/u", 3, "ab", "s", 900.0, 4, 5, (ANSWERED,))),
    (
        tree_key("flights"),
        Tree(
            "flights",
            (TreeSnapshot("query", 7, 3),),
            (RangeTombstone("old", 4),),
            (Manifest("m", 9, "ab", 2),),
            7,
            True,
            (Savepoint("kept", "query", 7, 3),),
            (Rollback(3, 5), Rollback(3, 6, ("offsets/8", "sources"))),
            (TreeSnapshot("query", 8, 4),),
            4,
            (ANSWERED,),
            1,
        ),
    ),
    (path_key("flights", "offsets/7"), TreePath("offsets/7", (GONE, THERE), 5, (ANSWERED,), 1)),
]


@pytest.mark.parametrize(("key", "record"), RECORDS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_record_is_json_with_a_schema_number_and_comes_back_as_it_was(key: str, record: Stored) -> None:
    value = encode(key, record)
    assert decode(key, value) == record
    inline = isinstance(record, Handle) and record.data is not None
    assert json.loads(value)["schema"] == (WITH_DATA if inline else SCHEMA)


def test_what_is_as_usual_is_left_out_but_for_the_schema() -> None:
    stored = json.loads(encode(session_key("s"), Session("s", 15.0, 1)))
    assert len(stored.pop("check")) == 32
    assert stored == {"id": "s", "ttl": 15.0, "born": 1, "schema": SCHEMA}


@pytest.mark.parametrize(("key", "record"), RECORDS, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda _: b"", "not a readable record"),
        (lambda value: value[:-3], "not a readable record"),
        (lambda _: b"\xff\xfe", "not a readable record"),
        (lambda _: b"[]", "not a readable record"),
        (lambda value: re.sub(rb'"schema":[12]', b'"schema":3', value), "its checksum is wrong"),
        (lambda value: value.replace(b'"check":"', b'"check":"0'), "does not begin with a checksum"),
    ],
    ids=["empty", "cut", "no text", "another kind", "altered", "another checksum"],
)
def test_what_cannot_be_read_is_corrupt_and_says_why(key: str, record: Stored, damage: Damage, reason: str) -> None:
    found = decode(key, damage(encode(key, record)))
    assert isinstance(found, Corrupt)
    assert found.name == key.split("/")[-1]
    assert reason in found.reason


@pytest.mark.parametrize(
    "record",
    [
        msgspec.structs.replace(HANDLE.holding("", b"v1"), schema=SCHEMA),
        msgspec.structs.replace(HANDLE, schema=WITH_DATA),
    ],
    ids=["bytes under the old number", "no bytes under the new one"],
)
def test_bytes_in_a_record_and_its_number_belong_together(record: Handle) -> None:
    """An older release knows the old number alone, and would take such a state for one whose blob is lost."""
    key = handle_key("flights", "h")
    found = decode(key, encode(key, record))
    assert isinstance(found, Corrupt)
    assert f"schema {record.schema} is not known" in found.reason


def test_a_record_of_a_newer_release_is_corrupt_and_says_so() -> None:
    key = handle_key("flights", "h")
    found = decode(key, encode(key, msgspec.structs.replace(HANDLE, schema=99)))
    assert isinstance(found, Corrupt)
    assert "schema 99 is not known" in found.reason


def test_each_flipped_bit_is_found() -> None:
    key = handle_key("flights", "h")
    whole = encode(key, HANDLE)
    for position in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << position % 8
        assert isinstance(decode(key, bytes(flipped)), Corrupt), position


def test_a_record_under_another_name_is_corrupt() -> None:
    key = handle_key("flights", "other")
    found = decode(key, encode(key, HANDLE))
    assert found == Corrupt("other", "the record is about 'h'")


def test_a_record_that_was_copied_to_another_key_is_corrupt() -> None:
    found = decode(handle_key("other", "h"), encode(handle_key("flights", "h"), HANDLE))
    assert isinstance(found, Corrupt)
    assert "belongs to another key" in found.reason


@pytest.mark.parametrize(
    "key",
    [
        "somewhere/else/x",
        "handles/h",
        "uploads/u",
        "others/flights/handles/h",
        "stores/flights/sessions/s",
        "sessions",
        "stores/flights/handles",
        "deployment/x",
        "stores/flights/handles/h/x",
    ],
)
def test_a_key_that_no_record_has_is_corrupt_and_none_of_ours(key: str) -> None:
    assert isinstance(decode(key, seal(key, msgspec.json.encode(HANDLE))), Corrupt)
    assert not is_ours(key)
    assert all(is_ours(key) for key, _ in RECORDS)


@pytest.mark.parametrize(
    ("key", "store", "handle", "upload"),
    [
        (session_key("s"), None, None, None),
        (store_key("flights"), "flights", None, None),
        (handle_key("flights", "h"), "flights", ("flights", "h"), None),
        (handle_key("handles", "stores"), "handles", ("handles", "stores"), None),
        (handle_key("uploads", "uploads"), "uploads", ("uploads", "uploads"), None),
        (upload_key("flights", "u"), "flights", None, ("flights", "u")),
    ],
)
def test_keys_tell_what_they_are_about(
    key: str, store: str | None, handle: tuple[str, str] | None, upload: tuple[str, str] | None
) -> None:
    assert store_of(key) == store
    assert handle_of(key) == handle
    assert upload_of(key) == upload
