"""Campaigning: long polls, repeated until granted or the wait is over; outages are waited out."""

from __future__ import annotations

import pytest

from milepost.core.effects import Answer, Lost, Send
from milepost.core.lease import Lease
from milepost.core.store import POLL_SECONDS, StoreOperations
from milepost.core.store_calls import SessionContext
from milepost.errors import ConnectionFailed, EpochHeld, OutcomeUnknown, SessionExpired, Unavailable
from milepost.wire import Code
from tests.client.core.world import CUT, NO_LEADER, REFUSED, SILENT, World, answer, problem, to_leader

GRANTED = answer({"epoch": 7, "session": "s1", "holder": "me", "since": "2026-03-01T10:00:00Z"})
HELD = problem(Code.HELD, holder="other", epoch=6)


def candidate(world: World, ttl: float = 3600.0) -> StoreOperations:
    return StoreOperations(world.caller, "s", SessionContext(Lease("s1", ttl, world.now, lambda: world.now)))


def asked(send: Send) -> bytes:
    assert send.body is not None
    body = send.body.begin()
    assert isinstance(body, bytes)
    return body


def test_a_grant_is_what_the_store_acts_under() -> None:
    world = World(GRANTED)
    store = candidate(world)
    epoch = world.run(store.campaign(5.0))
    assert (epoch.epoch, epoch.holder) == (7, "me")
    assert store.epoch == 7
    assert asked(world.sent[0]) == b'{"wait":5.0}'


def test_a_long_wait_is_cut_into_polls_each_under_a_key_of_its_own() -> None:
    world = World((20.0, HELD), (20.0, HELD), (3.0, GRANTED))
    world.run(candidate(world).campaign(60.0))
    assert [asked(send) for send in world.sent[:2]] == [b'{"wait":%.1f}' % POLL_SECONDS] * 2
    assert len(set(world.header("Idempotency-Key"))) == 3


def test_it_ends_when_the_wait_is_over_and_says_who_leads() -> None:
    world = World(*[(20.0, HELD)] * 10)
    with pytest.raises(EpochHeld) as raised:
        world.run(candidate(world).campaign(30.0))
    assert (raised.value.holder, raised.value.epoch) == ("other", 6)
    assert 1029 <= world.now <= 1041


def test_no_wait_asks_once() -> None:
    world = World(HELD)
    with pytest.raises(EpochHeld):
        world.run(candidate(world).campaign(0.0))
    assert asked(world.sent[0]) == b'{"wait":0.0}'


def test_waiting_for_ever_outlasts_outages() -> None:
    outage: list[Answer] = [NO_LEADER] * 300
    world = World(HELD, *outage, CUT, *outage, GRANTED)
    store = candidate(world)
    world.run(store.campaign(None))
    assert store.epoch == 7
    assert world.now > 1000.0 + 100.0


def test_a_poll_of_unknown_outcome_is_reported_when_the_wait_is_over() -> None:
    world = World(CUT, *[NO_LEADER] * 1000)
    with pytest.raises(OutcomeUnknown):
        world.run(candidate(world).campaign(1.0))


def test_a_lost_session_ends_it() -> None:
    world = World(HELD, problem(Code.SESSION_EXPIRED))
    with pytest.raises(SessionExpired):
        world.run(candidate(world).campaign(None))
    world = World(*[(20.0, HELD)] * 5)
    with pytest.raises(SessionExpired, match="not renewed"):
        world.run(candidate(world, ttl=30.0).campaign(None))
    assert len(world.sent) == 2


@pytest.mark.parametrize(("absence", "error"), [(REFUSED, ConnectionFailed), (NO_LEADER, Unavailable)])
@pytest.mark.parametrize("wait", [0.0, 3.0, 45.0])
def test_the_wait_bounds_an_outage_too(absence: Answer | Lost, error: type[Exception], wait: float) -> None:
    world = World(*[absence] * 1000)
    with pytest.raises(error):
        world.run(candidate(world).campaign(wait))
    assert max(wait, 1.0) - 1.0 <= world.now - 1000.0 <= max(wait, 1.0) + 0.01


def test_one_who_says_nothing_holds_a_campaign_for_an_answers_time_more() -> None:
    world = World(*[(60.0, SILENT)] * 100)
    with pytest.raises(OutcomeUnknown):
        world.run(candidate(world).campaign(3.0))
    assert world.now <= 1006.0


def test_who_waits_for_nothing_finds_the_leader_all_the_same() -> None:
    world = World(NO_LEADER, to_leader("http://c:7070"), GRANTED)
    assert world.run(candidate(world).campaign(0.0)).epoch == 7
