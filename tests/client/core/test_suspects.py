"""A replica that does not answer is a suspect, and others are asked before it. Scripted answers, virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from milepost.core.calls.request import Request
from milepost.core.effects import Answer, Lost, Send
from milepost.errors import (
    OutcomeUnknown,
)
from tests.client.core.world import (
    CHANGE,
    NOT_THERE,
    OK,
    READ,
    SILENT,
    A,
    B,
    C,
    World,
    adding,
    call,
    to_leader,
)


def paused(world: World, until: float, successor: str = C) -> Callable[[Send], Answer | Lost]:
    """A leads and is paused: it takes requests, and never answers. The others name it until one of them leads."""

    def react(send: Send) -> Answer | Lost:
        target = send.url.split("/v1/")[0]
        if target == A:
            world.now += send.timeout
            return SILENT
        world.now += 0.001
        if world.now < until:
            return to_leader(A)(send)
        return OK if target == successor else to_leader(successor)(send)

    return react


@pytest.mark.parametrize("leader", [None, A])
@pytest.mark.parametrize("addresses", [(A, B, C), (B, C), (B,), (C, B, A)])
def test_a_paused_leader_costs_a_write_no_more_than_its_lease_and_a_moment(
    addresses: tuple[str, ...], leader: str | None
) -> None:
    world = World(addresses=addresses)
    world.replicas.leader = leader
    world.script = [paused(world, 1004.5)] * 1000
    call(world, CHANGE)
    assert 1004.5 <= world.now <= 1004.8
    assert world.targets.count(A) == 1
    assert max(world.slept) <= 0.25
    assert len(world.sent) < 50


def test_other_calls_do_not_wait_for_a_suspect_either() -> None:
    world = World()
    world.script = [paused(world, 1003.1)] * 1000
    call(world, CHANGE)
    asked = len(world.sent)
    call(world, READ)
    assert world.targets[asked:] == [C]
    world.replicas.leader = None
    call(world, READ)
    assert world.targets[asked + 1 :] == [B, C]


def test_a_suspect_is_asked_again_when_it_was_one_for_as_long_as_it_was_waited_for() -> None:
    world = World()
    world.script = [paused(world, 2000.0)] * 1000
    with pytest.raises(OutcomeUnknown):
        call(world, CHANGE, timeout=14.0)
    begun = [at for at, target in zip(world.times, world.targets, strict=True) if target == A]
    assert begun[0] == 1000.0
    assert begun[1:] == pytest.approx([1006.0, 1012.0], abs=0.75)


def test_one_that_answers_after_all_is_no_suspect_any_more() -> None:
    world = World((3.0, SILENT), to_leader(A), OK, addresses=[A, B])
    with pytest.raises(OutcomeUnknown):
        call(world, CHANGE, timeout=3.0)
    assert world.replicas.suspected(A)
    world.replicas.answered(A)  # to another thread
    world.replicas.leader = B
    call(world, CHANGE)
    assert world.targets == [A, B, A]


def test_an_only_address_that_did_not_answer_is_asked_again_at_once() -> None:
    world = World((3.0, SILENT), OK, addresses=[A])
    call(world, CHANGE)
    assert world.targets == [A, A]
    assert world.now <= 1003.1


def test_when_all_are_suspects_all_are_asked() -> None:
    world = World((3.0, SILENT), (3.0, SILENT), (3.0, SILENT), OK, addresses=[A, B])
    call(world, CHANGE)
    assert world.targets == [A, B, A, B]
    assert world.now <= 1009.2


def test_who_had_no_time_to_answer_is_hardly_a_suspect() -> None:
    world = World((10.0, SILENT), OK, addresses=[A, B])
    with pytest.raises(OutcomeUnknown):
        call(world, CHANGE, timeout=0.1)
    world.now += 0.1
    call(world, CHANGE)
    assert world.targets == [A, A]


def test_a_long_poll_that_the_deadline_cuts_short_makes_no_suspect() -> None:
    world = World((30.0, SILENT), OK, addresses=[A, B])
    with pytest.raises(OutcomeUnknown):
        call(world, Request("POST", "/v1/stores/s/epoch", wait=20.0), timeout=10.0)
    call(world, CHANGE)
    assert world.targets == [A, A]


def test_a_leader_whose_storage_hangs_is_no_suspect() -> None:
    """The leader answers what needs no storage. So the client asks no other replica, and can end its session."""
    hanging = (9.0, SILENT)
    world = World(to_leader(B), NOT_THERE, hanging, NOT_THERE, hanging, NOT_THERE, hanging, OK)
    with pytest.raises(OutcomeUnknown):
        call(world, adding(b"x" * 200_000), timeout=9.0)
    call(world, CHANGE)
    assert world.targets.count(C) == 0
    assert world.targets[-1] == B


def test_a_paused_leader_costs_a_large_write_one_short_question_more() -> None:
    world = World()
    world.replicas.leader = A
    world.script = [paused(world, 1004.5)] * 1000
    call(world, adding(b"x" * 200_000))
    assert world.now <= 1005.3
    assert len(world.sent) < 20
