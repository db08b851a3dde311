"""Who is believed: answers of the service, whole, and nobody else's. Scripted answers, virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from milepost.core import service
from milepost.core.effects import Answer, Operation
from milepost.core.lease import Lease
from milepost.core.store import StoreOperations
from milepost.core.store_calls import SessionContext
from milepost.errors import (
    AccessDenied,
    AlreadyExists,
    MilepostError,
    OutcomeUnknown,
    Problem,
    ServerFault,
    Unavailable,
)
from milepost.wire import Code, Outcome
from tests.client.core.world import CUT, RECORD, A, B, World, answer, problem, strange

HANDLE = {**RECORD, "name": "h"}
ADDED = answer(HANDLE, status=201)
REFUSAL = problem(Code.NOT_EXIST)


def store(world: World) -> StoreOperations:
    return StoreOperations(world.caller, "s", SessionContext(Lease("s1", 3600.0, world.now, lambda: world.now)))


def document(**members: Any) -> Answer:
    """A problem document of the service with other members; None: without it."""
    fields = {**json.loads(REFUSAL.body), **members}
    body = json.dumps({name: value for name, value in fields.items() if value is not None})
    return replace(REFUSAL, body=body.encode())


def test_a_refused_head_names_the_store_and_the_right() -> None:
    """It has no body, so the service cannot say it."""
    world = World(answer(status=403))
    with pytest.raises(AccessDenied, match="HEAD /v1/stores/s/handles/h, which takes the right to read the store 's'"):
        world.run(store(world).exists("h"))


HTML = b"<html>you are being redirected to the login</html>"
PAGES = [
    Answer(status, {"content-type": "text/html"}, HTML)
    for status in (200, 201, 204, 300, 301, 302, 400, 401, 403, 404, 405, 409, 410, 412, 413, 429, 500, 502, 503, 504)
]
PORTALS = [Answer(status, {"location": "http://login.example/?back=1"}) for status in (302, 303, 307, 308)]
TO_LEADER = answer(status=307, location=B + "/v1/stores/s/handles/h")
STOLEN = [strange(each) for each in (ADDED, REFUSAL, problem(Code.FENCED), TO_LEADER)]
MANGLED = [
    replace(ADDED, headers={"milepost-term": "3, 3"}),  # as httpx gives two headers of one name
    replace(ADDED, headers={"milepost-term": "three"}),
    replace(ADDED, headers={**ADDED.headers, "content-encoding": "gzip"}),
    replace(ADDED, body=ADDED.body[:-9]),
    replace(ADDED, body=b"[" * 100_000),
    replace(ADDED, body=b"\xff\xfe"),
    replace(ADDED, body=HTML),
    replace(ADDED, body=b""),
    replace(ADDED, status=202),
    replace(REFUSAL, body=REFUSAL.body[:-9]),
    replace(REFUSAL, body=HTML),
    replace(REFUSAL, body=b""),
    replace(REFUSAL, headers={"milepost-term": "3", "content-type": "application/json"}),
    replace(REFUSAL, status=403),
    document(type="not-exist"),
    document(type=7),
    document(status="404"),
    document(retryable="no"),
    document(retryable=None),
    document(outcome="nothing happened"),
    document(outcome=["applied"]),
    document(outcome=None),
    document(detail=None),
    answer(status=302, location=A + "/v1/stores/s/handles/h"),
    answer(status=308, location=B + "/v1/stores/s/handles/h"),
    answer(status=307),
    answer(status=100),
]
NO_ANSWERS = [*PAGES, *PORTALS, *STOLEN, *MANGLED]


@pytest.mark.parametrize("stranger", NO_ANSWERS)
def test_a_change_whose_answer_is_not_the_services_is_asked_for_again_under_its_key(stranger: Answer) -> None:
    world = World(stranger, replace(ADDED, headers={**ADDED.headers, "milepost-replayed": "true"}))
    assert world.run(store(world).add_and_lock("h", b"x", None, None)).version == "abc.7"
    assert world.header("Idempotency-Key") == ["id-1", "id-1"]
    assert world.header("Milepost-Attempt") == ["1", "2"]


@pytest.mark.parametrize("stranger", NO_ANSWERS)
def test_a_change_that_only_strangers_answer_ends_as_unknown_and_a_read_as_unavailable(stranger: Answer) -> None:
    world = World(*[stranger] * 1000)
    with pytest.raises(OutcomeUnknown) as unknown:
        world.run(store(world).add_and_lock("h", b"x", None, None))
    assert unknown.value.outcome is Outcome.UNKNOWN
    assert world.now <= 1030.0
    reads: list[Callable[[StoreOperations], Operation[Any]]] = [lambda s: s.get("h"), lambda s: s.current_epoch()]
    if stranger not in MANGLED:  # of those it has no body to see by
        reads.append(lambda s: s.exists("h"))
    for reading in reads:
        world = World(*[stranger] * 1000)
        with pytest.raises(Unavailable):
            world.run(reading(store(world)))


@pytest.mark.parametrize("stranger", PAGES)
def test_a_stranger_settles_nothing_that_is_in_doubt(stranger: Answer) -> None:
    world = World(CUT, stranger, problem(Code.ALREADY_EXISTS))
    with pytest.raises(AlreadyExists):  # the service is sure of that, and so of the attempts before
        world.run(store(world).add_and_lock("h", b"x", None, None))


def test_a_state_that_comes_only_once_is_of_unknown_outcome_at_once() -> None:
    world = World(answer(status=404), PAGES[0])
    with pytest.raises(OutcomeUnknown):
        world.run(store(world).add_and_lock("h", iter([b"x"]), None, None))


def test_a_strangers_words_are_not_repeated() -> None:
    world = World(*[replace(ADDED, body=b'{"name": "a-secret-of-theirs"}')] * 1000)
    with pytest.raises(OutcomeUnknown) as raised:
        world.run(store(world).add_and_lock("h", b"x", None, None))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "location",
    [
        "http://evil:1/",
        "http://evil:1/v1/stores/s/handles/other",
        "http://evil:1/v1/stores/s/handles/h?next=1",
        "http://evil:99999/v1/stores/s/handles/h",
        "http://ev il:1/v1/stores/s/handles/h",
        "http://e..vil/v1/stores/s/handles/h",
        "http://" + "e" * 64 + ".vil/v1/stores/s/handles/h",
        "http://" + "evil." * 51 + "evil/v1/stores/s/handles/h",
        "http://[::1/v1/stores/s/handles/h",
        "http://u:very-secret@evil:1/v1/stores/s/handles/h",
        "file:///v1/stores/s/handles/h",
        "//evil/v1/stores/s/handles/h",
    ],
)
def test_a_redirect_is_followed_to_the_same_call_at_an_address_and_nowhere_else(location: str) -> None:
    world = World(*[answer(status=307, location=location)] * 1000, addresses=[A])
    world.caller = world.make_caller(token="bearer")
    with pytest.raises(MilepostError) as raised:
        world.run(store(world).get("h"))
    assert set(world.targets) == {A}
    assert "secret" not in str(raised.value)


WRONG: dict[str, list[Any]] = {
    "name": ["other", None, 7, ["h"]],
    "version": [None, 7],
    "size": ["5", -1, 5.5, True, None],
    "sha256": ["", 7, "X" * 64],
    "created": [None, 0, "yesterday", "2026-03-01T10:00:00+02:00"],
    "labels": [[], {"a": 1}, "x"],
    "locks": ["s1", [1], {}],
    "epoch": ["3", -1, True],
    "removing": ["no", 0],
}


@pytest.mark.parametrize(("member", "value"), [(member, value) for member, given in WRONG.items() for value in given])
def test_a_record_of_another_shape_is_none(member: str, value: Any) -> None:
    world = World(answer({**HANDLE, member: value}), answer(HANDLE))
    assert world.run(store(world).get("h")).name == "h"
    assert len(world.sent) == 2


@pytest.mark.parametrize(
    ("operation", "given"),
    [
        (lambda s: s.get_all_and_lock(), {"handles": {}}),
        (lambda s: s.get_all_and_lock(), {"handles": ["h"]}),
        (lambda s: s.get_all_and_lock(), {"handles": [], "corrupt": [{"name": "x"}]}),
        (lambda s: s.get_all_handles(5), {"handles": [], "next": 5}),
        (lambda s: s.release_and_try_remove("h", None, None), {"removed": "true"}),
        (lambda s: s.release_and_try_remove("h", None, None), {"removed": False, "locks": "s1"}),
        (lambda s: s.clear_entries(), {"cleared": None}),
        (lambda s: s.clear_entries(), {"cleared": "2"}),
        (lambda s: s.release("h"), {}),
        (lambda s: s.current_epoch(), {"epoch": None}),
        (lambda s: s.poll_epoch(1.0), {"epoch": 0, "session": "s1"}),
        (lambda s: s.poll_epoch(1.0), {"epoch": 7, "session": "another"}),
        (lambda s: service.status(s.caller), {"replica": "a"}),
        (lambda s: service.stores(s.caller), {"stores": [{}]}),
        (lambda s: service.session_info(s.caller, "s1"), {"session": "s1"}),
        (lambda s: service.begin_session(s.caller, "h", 15.0, "s1"), {"session": "s2", "ttl": 15}),
        (lambda s: service.begin_session(s.caller, "h", 15.0, "s1"), {"session": "s1", "ttl": float("nan")}),
        (lambda s: service.begin_session(s.caller, "h", 15.0, "s1"), {"session": "s1", "ttl": float("inf")}),
        (lambda s: service.begin_session(s.caller, "h", 15.0, "s1"), {"session": "s1", "ttl": 0}),
    ],
)
def test_an_answer_to_something_else_is_none(
    operation: Callable[[StoreOperations], Operation[Any]], given: dict[str, Any]
) -> None:
    world = World(*[answer(given)] * 1000)
    with pytest.raises((OutcomeUnknown, Unavailable)):
        world.run(operation(store(world)))
    assert len(world.sent) > 1


def test_a_listing_that_goes_round_in_a_circle_is_none() -> None:
    world = World(*[answer({"handles": [], "next": "t"})] * 1000)
    with pytest.raises(Unavailable):
        world.run(store(world).get_all_handles(5))


def test_a_code_that_is_newer_than_this_client_keeps_its_text() -> None:
    world = World(document(type="urn:milepost:on-fire", detail="water is on its way", status=404))
    with pytest.raises(ServerFault, match="on-fire water") as raised:
        world.run(store(world).get("h"))
    assert isinstance(raised.value, Problem)
    assert len(world.sent) == 1
