"""Operations on the service itself, and times as they come."""

from __future__ import annotations

import pytest

from milepost.core import service
from milepost.core.calls import answers
from milepost.errors import SessionExpired
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


def test_stores_come_page_after_page() -> None:
    entry = {"store": "s", "handles": 2, "revision": 9, "epoch": None}
    world = World(answer({"stores": [entry], "next": "t"}), answer({"stores": [entry], "next": None}))
    world.run(service.stores(world.caller))
    assert [summary.handles for summary in world.emitted] == [2, 2]
    assert world.sent[1].url.endswith("/v1/stores?limit=1000&token=t")


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
    read = answers.time(text)
    assert (read.year, read.second, read.microsecond) == (2026, 0, micros)
    assert str(read.tzinfo) == "UTC"


@pytest.mark.parametrize("text", ["", "yesterday", "2026-03-01T10:00:00", "2026-03-01T10:00:00+02:00Z"])
def test_what_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|Invalid"):
        answers.time(text)
