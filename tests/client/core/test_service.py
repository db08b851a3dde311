"""Operations on the service itself, and times as they come."""

from __future__ import annotations

import pytest

from milepost.core import service
from milepost.core.calls import members
from milepost.core.effects import Lost
from milepost.errors import Fenced, InvalidRequest, NotSupported, SessionExpired
from milepost.types import SessionSummary, SteppedDown
from milepost.wire import Code
from tests.client.core.world import A, World, answer, problem

STATUS = {
    "replica": "a",
    "role": "follower",
    "leader": "http://b",
    "term": 3,
    "lease_remaining": None,
    "version": "0.1.0",
    "pointers": "embedded:x",
    "blobs": "file:y",
}


def test_a_status_is_the_replicas_own_and_makes_it_no_leader() -> None:
    world = World(answer(STATUS))
    status = world.run(service.status(world.caller))
    assert (status.role, status.leader, status.term) == ("follower", "http://b", 3)
    assert world.sent[0].url == A + "/v1/status"
    assert world.replicas.leader is None


def test_a_term_is_stepped_down_from_once_however_often_the_answer_is_lost() -> None:
    stepped = {"replica": "a", "term": 7}
    world = World(Lost("cut", sent=True), answer(stepped))
    assert world.run(service.step_down(world.caller, 7, 30.0)) == SteppedDown("a", 7)
    assert [sent.body and sent.body.begin() for sent in world.sent] == [b'{"term":7}'] * 2
    world = World(Lost("cut", sent=True), problem(Code.FENCED, current=8))
    with pytest.raises(Fenced) as caught:
        world.run(service.step_down(world.caller, 7, 30.0))
    assert caught.value.extras["current"] == 8


def test_a_status_of_an_older_service_says_nothing_of_epochs() -> None:
    world = World(answer(STATUS), answer({**STATUS, "epochs_above": 7}))
    assert [world.run(service.status(world.caller)).epochs_above for _ in range(2)] == [None, 7]


def test_stores_come_page_after_page() -> None:
    entry = {"store": "s", "handles": 2, "revision": 9, "epoch": None}
    world = World(answer({"stores": [entry], "next": "t"}), answer({"stores": [entry], "next": None}))
    world.run(service.stores(world.caller))
    assert [summary.handles for summary in world.emitted] == [2, 2]
    assert world.sent[1].url.endswith("/v1/stores?limit=1000&token=t")
    first = world.emitted[0]
    assert (first.session, first.holder, first.since, first.snapshot, first.damaged) == (None,) * 5, (
        "of an older service"
    )


LISTED = {
    "session": "s1",
    "ttl": 15,
    "holder": "h",
    "expires_in": 9.5,
    "locks": 2,
    "locked_stores": 1,
    "epochs": [{"store": "s", "epoch": 3}],
    "more_epochs": False,
}


def test_sessions_come_page_after_page() -> None:
    last: dict[str, object] = {"sessions": [], "corrupt": [], "next": None}
    world = World(answer({**last, "sessions": [LISTED], "next": "t"}), answer(last))
    world.run(service.sessions(world.caller))
    assert world.emitted == [SessionSummary("s1", 15.0, "h", 9.5, 2, 1, {"s": 3}, False)]
    assert world.sent[1].url.endswith("/v1/sessions?limit=1000&token=t")


def test_a_service_that_cannot_list_sessions_is_told_from_a_wrong_request() -> None:
    world = World(problem(Code.METHOD_NOT_ALLOWED))
    with pytest.raises(NotSupported, match="does not list sessions"):
        world.run(service.sessions(world.caller))
    world = World(problem(Code.INVALID_REQUEST))
    with pytest.raises(InvalidRequest):
        world.run(service.sessions(world.caller))


def test_a_session_is_shown_with_what_it_holds() -> None:
    document = {"session": "s1", "ttl": 15, "holder": "h", "expires_in": 9.5, "locks": [{"store": "s", "name": "n"}]}
    world = World(answer(document), problem(Code.SESSION_EXPIRED))
    info = world.run(service.session_info(world.caller, "s1"))
    assert (info.ttl, info.expires_in, info.locks) == (15.0, 9.5, ("s/n",))
    with pytest.raises(SessionExpired):
        world.run(service.session_info(world.caller, "s1"))


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2026-03-01T10:00:00Z", 0),
        ("2026-03-01T10:00:00+00:00", 0),
        ("2026-03-01T10:00:00.5Z", 500_000),
        ("2026-03-01T10:00:00.123456789Z", 123_456),
    ],
)
def test_times_are_read_to_the_microsecond(text: str, micros: int) -> None:
    read = members.time(text)
    assert (read.year, read.second, read.microsecond) == (2026, 0, micros)
    assert str(read.tzinfo) == "UTC"


@pytest.mark.parametrize("text", ["", "yesterday", "2026-03-01T10:00:00", "2026-03-01T10:00:00+02:00Z"])
def test_what_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|Invalid"):
        members.time(text)
