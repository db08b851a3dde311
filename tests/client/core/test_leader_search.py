"""A call looks for the leader among the replicas. Scripted answers, virtual time."""

from __future__ import annotations

import pytest

from milepost.core.effects import Answer, Lost
from milepost.errors import (
    ConnectionFailed,
)
from milepost.wire import Code, Header
from tests.client.core.world import (
    CHANGE,
    CUT,
    NO_LEADER,
    OK,
    READ,
    REFUSED,
    SILENT,
    A,
    B,
    C,
    Reaction,
    World,
    adding,
    answer,
    call,
    problem,
    to_leader,
)


def test_a_redirect_is_followed_with_method_body_headers_path_and_query() -> None:
    world = World(to_leader(C), OK)
    call(world, adding())
    assert [send.method for send in world.sent] == ["POST", "POST"]
    assert [send.url for send in world.sent] == [A + "/v1/stores/s/handles/h", C + "/v1/stores/s/handles/h"]
    assert world.bodies == [b"state", b"state"]
    first, second = (dict(send.headers) for send in world.sent)
    assert first.pop(Header.REQUEST_ID) != second.pop(Header.REQUEST_ID)
    assert first == second
    assert world.slept == []

    world = World(to_leader(C), OK)
    call(world, READ)
    assert world.sent[1].url == C + "/v1/stores/s/handles?limit=5&token=a%2Fb"


def test_the_leader_is_remembered() -> None:
    world = World(to_leader(C), OK, OK)
    call(world, CHANGE)
    call(world, READ)
    assert world.targets == [A, C, C]


def test_a_leader_that_is_reached_under_a_prefix_keeps_it() -> None:
    world = World(to_leader("https://gateway/milepost"), OK, OK)
    call(world, READ)
    call(world, CHANGE)
    assert world.sent[2].url == "https://gateway/milepost" + CHANGE.path


@pytest.mark.parametrize("without", [NO_LEADER, problem(Code.SHUTTING_DOWN), REFUSED, CUT, SILENT])
def test_one_that_cannot_help_is_passed_over_at_once(without: Answer | Lost) -> None:
    world = World(without, without, OK)
    call(world, CHANGE)
    assert world.targets == [A, B, C]
    assert world.slept == []


def test_a_remembered_leader_that_is_gone_is_forgotten() -> None:
    world = World(to_leader(C), OK, REFUSED, OK, OK)
    for _ in range(3):
        call(world, READ)
    assert world.targets == [A, C, C, A, A]


def test_after_a_round_without_a_leader_it_rests_and_asks_all_again() -> None:
    world = World(NO_LEADER, REFUSED, NO_LEADER, NO_LEADER, OK)
    call(world, CHANGE)
    assert world.targets == [A, B, C, A, B]
    assert len(world.slept) == 1


def test_a_leader_that_is_busy_is_asked_again_after_a_rest() -> None:
    world = World(to_leader(C), problem(Code.STORAGE_UNAVAILABLE), OK)
    call(world, CHANGE)
    assert world.targets == [A, C, C]
    assert len(world.slept) == 1


def test_replicas_that_send_round_in_a_circle_are_left_after_a_few_steps() -> None:
    circle: list[Reaction] = [to_leader(B), to_leader(A)] * 200
    world = World(*circle, addresses=[A, B])
    with pytest.raises(ConnectionFailed, match="circle"):
        call(world, CHANGE, timeout=2.0)
    assert world.now >= 1001.9
    assert len(world.sent) < 100


def test_https_is_never_left_for_http() -> None:
    world = World(to_leader("http://evil:1"), to_leader("https://b:1"), OK, addresses=["https://a:1", "https://b:1"])
    call(world, CHANGE)
    assert world.targets == ["https://a:1", "https://b:1", "https://b:1"]


@pytest.mark.parametrize("location", ["ftp://x/v1/", "/v1/relative", "http://user:secret@b:1/v1/stores/s/locks"])
def test_a_location_that_cannot_be_used_is_a_replica_that_cannot_help(location: str) -> None:
    world = World(answer(status=307, location=location), OK)
    call(world, CHANGE)
    assert world.targets == [A, B]
