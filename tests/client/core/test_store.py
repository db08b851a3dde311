"""The operations of a store, as they stand on the wire, and how their answers are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from milepost.core.effects import Answer, Operation
from milepost.core.lease import Lease
from milepost.core.store import StoreOperations
from milepost.core.store_calls import SessionContext
from milepost.errors import (
    Corrupt,
    InvalidName,
    InvalidRequest,
    SessionExpired,
    Unavailable,
)
from milepost.types import CorruptHandle, Epoch, Removal
from milepost.wire import Code
from tests.client.core.world import RECORD, World, answer, problem, strange


def store(world: World, epoch: int | None = None) -> StoreOperations:
    return StoreOperations(world.caller, "s", SessionContext(Lease("s1", 15.0, world.now, lambda: world.now)), epoch)


HANDLE = answer({**RECORD, "name": "h"}, etag='"abc.7"')
ADDED = replace(HANDLE, status=201)
NOTHING = answer(status=204)
CASES: list[tuple[Callable[[StoreOperations], Operation[Any]], Answer, str, dict[str, str | None]]] = [
    (
        lambda s: s.add_and_lock("h", b"hello", {"batch": "7"}, None),
        ADDED,
        "POST /v1/stores/s/handles/h",
        {
            "Milepost-Epoch": "3",
            "Milepost-Labels": '{"batch":"7"}',
            "Milepost-Label-batch": "7",
            "Content-Type": "application/octet-stream",
        },
    ),
    (
        lambda s: s.replace("h", "abc.6", b"hello", None, None),
        HANDLE,
        "PUT /v1/stores/s/handles/h",
        {"Milepost-Epoch": "3", "If-Match": '"abc.6"', "Milepost-Labels": None, "Milepost-Label-batch": None},
    ),
    (lambda s: s.get_and_lock("h"), HANDLE, "POST /v1/stores/s/handles/h/lock", {"Milepost-Epoch": None}),
    (
        lambda s: s.get_all_and_lock(),
        answer({"handles": [RECORD], "corrupt": []}),
        "POST /v1/stores/s/locks",
        {"Milepost-Epoch": None},
    ),
    (
        lambda s: s.release_and_try_remove("h", None, None),
        answer({"removed": True}),
        "DELETE /v1/stores/s/handles/h",
        {"Milepost-Epoch": "3", "If-Match": None},
    ),
    (
        lambda s: s.release_and_try_remove("h", "abc.7", None),
        answer({"removed": True}),
        "DELETE /v1/stores/s/handles/h",
        {"If-Match": '"abc.7"'},
    ),
    (lambda s: s.clear_entries(), answer({"cleared": 2}), "DELETE /v1/stores/s/handles", {"Milepost-Epoch": "3"}),
    (lambda s: s.release("h"), NOTHING, "DELETE /v1/stores/s/handles/h/lock", {"Milepost-Epoch": None}),
    (lambda s: s.release_all(), NOTHING, "DELETE /v1/stores/s/locks", {"Milepost-Epoch": None}),
    (lambda s: s.resign(), NOTHING, "DELETE /v1/stores/s/epoch", {"Milepost-Epoch": None}),
]


@pytest.mark.parametrize(("operation", "given", "line", "headers"), CASES, ids=[case[2] for case in CASES])
def test_a_change_names_session_key_and_attempt_and_what_else_it_needs(
    operation: Callable[[StoreOperations], Operation[Any]],
    given: Answer,
    line: str,
    headers: dict[str, str | None],
) -> None:
    world = World(given)
    world.run(operation(store(world, epoch=3)))
    (send,) = world.sent
    assert f"{send.method} {send.url}" == line.replace(" ", " http://a:7070")
    assert send.headers["Milepost-Session"] == "s1"
    assert send.headers["Idempotency-Key"] == "id-1"
    assert send.headers["Milepost-Attempt"] == "1"
    for name, value in headers.items():
        assert send.headers.get(name) == value, name


READS: list[tuple[Callable[[StoreOperations], Operation[Any]], Answer, str]] = [
    (lambda s: s.exists("h"), answer(etag='"abc.7"'), "HEAD /v1/stores/s/handles/h"),
    (lambda s: s.get("h"), HANDLE, "GET /v1/stores/s/handles/h"),
    (lambda s: s.get_all_handles(1000), answer({"handles": [], "next": None}), "GET /v1/stores/s/handles?limit=1000"),
    (lambda s: s.current_epoch(), answer({"epoch": 0}), "GET /v1/stores/s/epoch"),
]


@pytest.mark.parametrize(("operation", "given", "line"), READS, ids=[case[2] for case in READS])
def test_a_read_needs_no_session(
    operation: Callable[[StoreOperations], Operation[Any]], given: Answer, line: str
) -> None:
    world = World(given)
    world.run(operation(StoreOperations(world.caller, "s", SessionContext(None))))
    (send,) = world.sent
    assert f"{send.method} {send.url}" == line.replace(" ", " http://a:7070")
    assert "Milepost-Session" not in send.headers


def test_a_change_without_a_session_is_not_sent() -> None:
    world = World()
    with pytest.raises(InvalidRequest) as raised:
        world.run(StoreOperations(world.caller, "s", SessionContext(None)).release("h"))
    assert raised.value.code is Code.SESSION_REQUIRED


def test_a_change_by_a_lost_session_is_not_sent() -> None:
    world = World()
    operations = store(world)
    world.now += 15.0
    with pytest.raises(SessionExpired):
        world.run(operations.add_and_lock("h", b"", None, None))


def test_a_session_that_the_service_refuses_is_lost_here_too() -> None:
    world = World(problem(Code.SESSION_EXPIRED))
    lease = Lease("s1", 15.0, world.now, lambda: world.now)
    with pytest.raises(SessionExpired):
        world.run(StoreOperations(world.caller, "s", SessionContext(lease)).release("h"))
    assert lease.lost
    assert "session-expired" in lease.reason


@pytest.mark.parametrize("name", ["", ".hidden", "..", "a/b", "a b", "é", "x" * 201, "a?b", "a%2Fb"])
def test_a_name_that_the_service_would_refuse_is_not_sent(name: str) -> None:
    world = World()
    with pytest.raises(InvalidName):
        world.run(store(world).exists(name))
    with pytest.raises(InvalidName):
        StoreOperations(world.caller, name, SessionContext(None))


@pytest.mark.parametrize(
    "labels",
    [
        {"Upper": "x"},
        {"": "x"},
        {"a b": "x"},
        {"k": "x" * 257},
        {"k": "line\nbreak"},
        {"k": " blank"},
        {"k": "é"},
        {f"k{n}": "x" for n in range(33)},
    ],
)
def test_labels_that_no_header_carries_are_not_sent(labels: dict[str, str]) -> None:
    world = World()
    with pytest.raises(InvalidRequest):
        world.run(store(world).add_and_lock("h", b"", labels, None))


@pytest.mark.parametrize("version", ["", "a b", 'a"b', "x" * 129, "é"])
def test_what_cannot_be_a_version_is_not_sent(version: str) -> None:
    world = World()
    with pytest.raises(InvalidRequest):
        world.run(store(world).replace("h", version, b"", None, None))


def test_a_record_is_read_whole() -> None:
    world = World(answer(RECORD))
    handle = world.run(store(world).get("latest"))
    assert (handle.name, handle.version, handle.size, handle.epoch) == ("latest", "abc.7", 5, 3)
    assert (handle.labels, handle.locks, handle.removing) == ({"batch": "7"}, ("s1",), False)
    assert handle.created.isoformat() == "2026-03-01T10:00:00+00:00"
    assert handle.updated.isoformat() == "2026-03-01T10:00:01.250000+00:00"
    assert hash(handle) == hash(handle)


def test_what_a_later_service_adds_is_ignored() -> None:
    world = World(answer({**RECORD, "colour": "red"}))
    assert world.run(store(world).get("latest")).name == "latest"


def test_exists_says_absent_only_where_the_service_does() -> None:
    world = World(answer(status=404))
    assert world.run(store(world).exists("h")) is None
    for unlike in (strange(answer(status=404)), answer(), answer(etag='W/"abc.7"')):
        world = World(*[unlike] * 1000)
        with pytest.raises(Unavailable):
            world.run(store(world).exists("h"))


def test_a_damaged_handle_is_told_apart_from_an_absent_one() -> None:
    world = World(answer(status=500), problem(Code.CORRUPT))
    with pytest.raises(Corrupt):
        world.run(store(world).exists("h"))
    assert [send.method for send in world.sent] == ["HEAD", "GET"]


def test_damaged_handles_in_a_listing_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World(answer({"handles": [RECORD], "corrupt": [{"name": "bad", "reason": "no JSON"}], "next": None}))
    world.run(store(world).get_all_handles(10))
    assert [handle.name for handle in world.emitted] == ["latest"]
    assert "bad of store s is damaged and left out of the listing: no JSON" in caplog.text


def test_handles_come_page_after_page() -> None:
    pages = [{"handles": [{**RECORD, "name": f"h{n}"}], "next": "t&k" if n == 0 else None} for n in range(2)]
    world = World(*[answer(page) for page in pages])
    world.run(store(world).get_all_handles(1))
    assert [handle.name for handle in world.emitted] == ["h0", "h1"]
    assert world.sent[1].url.endswith("/handles?limit=1&token=t%26k")


def test_locked_handles_come_with_the_damaged_ones() -> None:
    world = World(answer({"handles": [RECORD], "corrupt": [{"name": "bad", "reason": "no JSON"}]}))
    locked = world.run(store(world).get_all_and_lock())
    assert [handle.name for handle in locked.handles] == ["latest"]
    assert locked.corrupt == [CorruptHandle("bad", "no JSON")]


def test_a_removal_has_two_ends() -> None:
    world = World(answer({"removed": True}), answer({"removed": False, "locks": ["s2"]}))
    assert world.run(store(world).release_and_try_remove("h", None, None)) == Removal(True)
    assert world.run(store(world).release_and_try_remove("h", None, None)) == Removal(False, ("s2",))


def test_an_epoch_that_never_was() -> None:
    world = World(answer({"epoch": 0, "session": None, "holder": None, "since": None}))
    assert world.run(store(world).current_epoch()) == Epoch(0)


def test_resigning_ends_acting_under_the_epoch() -> None:
    world = World(NOTHING)
    operations = store(world, epoch=3)
    world.run(operations.resign())
    assert operations.epoch is None


def test_under_another_epoch_is_another_object() -> None:
    operations = store(World(), epoch=3)
    assert operations.under(4).epoch == 4
    assert operations.epoch == 3
