"""The record of a handle: its fields, their types, and what each tells."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta, timezone

from tests.wire.support.api import Api, Json

RFC_3339_UTC = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z")
FIELDS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "version": str,
    "size": int,
    "sha256": str,
    "created": str,
    "updated": str,
    "labels": dict,
    "locks": list,
    "epoch": (int, type(None)),
    "removing": bool,
}


def check(record: Json) -> None:
    """Exactly these fields, each of its type."""
    assert record.keys() == FIELDS.keys()
    for name, kind in FIELDS.items():
        assert isinstance(record[name], kind), name
    assert type(record["size"]) is int
    assert re.fullmatch("[0-9a-f]{64}", record["sha256"])
    for name in ("created", "updated"):
        assert RFC_3339_UTC.fullmatch(record[name]), record[name]


def test_every_answer_tells_the_same_record(api: Api) -> None:
    added = api.added("a", b"five!")
    check(added)
    assert api.get("a").json() == added
    assert api.lock("a").json() == added
    assert api.handles().json()["handles"] == [added]
    assert api.lock_all().json() == {"handles": [added], "corrupt": []}


def test_what_the_fields_tell(api: Api) -> None:
    epoch = api.granted()
    record = api.under(epoch).added("a", b"five!")
    assert record["name"] == "a"
    assert record["size"] == 5
    assert record["sha256"] == hashlib.sha256(b"five!").hexdigest()
    assert record["locks"] == [api.session]
    assert record["epoch"] == epoch
    assert record["removing"] is False
    assert record["created"] == record["updated"]


def test_epoch_is_null_where_the_state_was_written_under_none(api: Api) -> None:
    assert api.added("a")["epoch"] is None


def test_times_are_of_now_in_utc(api: Api) -> None:
    created = datetime.fromisoformat(api.added("a")["created"])
    assert abs(datetime.now(timezone.utc) - created) < timedelta(minutes=1)
    assert created.utcoffset() == timedelta(0)


def test_a_replacement_keeps_what_is_older(api: Api) -> None:
    added = api.added("a", b"old")
    replaced = api.replace("a", added["version"], b"newest").json()
    check(replaced)
    assert replaced["created"] == added["created"]
    assert replaced["updated"] >= added["updated"]
    assert replaced["size"] == 6
    assert replaced["version"] != added["version"]


def test_locking_does_not_move_version_and_times(api: Api) -> None:
    added = api.added("a")
    other = api.other()
    locked = other.lock("a").json()
    assert locked["locks"] == sorted([str(api.session), str(other.session)])
    assert {**locked, "locks": added["locks"]} == added


def test_the_empty_state(api: Api) -> None:
    record = api.added("a", b"")
    check(record)
    assert record["size"] == 0
    assert record["sha256"] == hashlib.sha256(b"").hexdigest()
    assert api.state("a").content == b""
