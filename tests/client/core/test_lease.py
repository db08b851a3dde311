"""The lease of a session and its keeper, in virtual time."""

from __future__ import annotations

import json

import pytest

from milepost.core import service
from milepost.core.effects import Answer, Send
from milepost.core.lease import Lease, keep
from milepost.errors import InvalidRequest, OutcomeUnknown, SessionExpired
from milepost.types import Process
from milepost.wire import Code
from tests.client.core.world import CUT, NO_LEADER, REFUSED, SILENT, A, B, World, answer, problem

ALIVE = answer({"session": "s1", "ttl": 15})


def begun(world: World, ttl: float = 15.0) -> Lease:
    return Lease("s1", ttl, world.now, lambda: world.now)


def test_a_lease_is_certain_until_its_last_moment_and_then_lost_for_good() -> None:
    world = World()
    lease = begun(world)
    world.now += 14.9
    assert not lease.lost
    assert lease.expires_in == pytest.approx(0.1)
    lease.raise_if_lost()
    world.now += 0.1
    assert lease.lost
    assert lease.expires_in == 0.0
    with pytest.raises(SessionExpired, match="not renewed within 15 s"):
        lease.raise_if_lost()
    lease.renewed(world.now, 15.0)  # an answer that came too late
    assert lease.lost


def test_a_lease_that_nobody_looked_at_is_not_revived_either() -> None:
    world = World()
    lease = begun(world)
    world.now += 20.0
    lease.renewed(world.now - 1.0, 15.0)
    assert lease.lost


def test_a_renewal_counts_from_before_its_request() -> None:
    world = World((2.0, ALIVE), problem(Code.SESSION_EXPIRED))
    lease = begun(world)
    world.run(keep(world.caller, lease))
    # Asked at 1005 and answered at 1007, the lease is certain until 1020; a third of that is used up at 1010.
    assert world.times == pytest.approx([1005.0, 1010.0])


def test_the_keeper_renews_each_third_until_the_service_ends_the_session() -> None:
    world = World(ALIVE, ALIVE, ALIVE, problem(Code.SESSION_EXPIRED))
    lease = begun(world)
    reason = world.run(keep(world.caller, lease))
    assert world.times == pytest.approx([1005.0, 1010.0, 1015.0, 1020.0])
    assert "session-expired" in reason
    assert lease.lost


@pytest.mark.parametrize("outage", [NO_LEADER, REFUSED, CUT, SILENT, problem(Code.UNAUTHENTICATED), Answer(401, {})])
def test_an_outage_is_waited_out_until_the_lease_ends(outage: Answer) -> None:
    world = World(*[outage] * 10_000)
    lease = begun(world)
    reason = world.run(keep(world.caller, lease))
    assert reason == "not renewed within 15 s"
    assert 1015.0 <= world.now <= 1016.5
    assert len(world.sent) > 5


def test_an_outage_that_ends_in_time_costs_nothing() -> None:
    world = World(*[problem(Code.UNAUTHENTICATED)] * 4, ALIVE, problem(Code.SESSION_UNKNOWN))
    lease = begun(world)
    assert "session-unknown" in world.run(keep(world.caller, lease))


def test_a_replica_that_hangs_leaves_time_to_ask_another() -> None:
    world = World((1000.0, SILENT), ALIVE, problem(Code.SESSION_EXPIRED), addresses=[A, B])
    lease = begun(world)
    world.run(keep(world.caller, lease))
    assert world.targets[:2] == [A, B]
    assert world.sent[0].timeout == 2.5


def test_the_lease_of_a_new_session_begins_before_its_request() -> None:
    world = World((3.0, answer({"session": "id-1", "ttl": 15, "holder": "h"}, status=201)))
    lease = world.run(service.begin_session(world.caller, "h", 15.0, None))
    assert lease.session == "id-1"
    assert lease.expires_in == 12.0


def test_a_session_is_begun_again_under_the_same_id() -> None:
    def begin(send: Send) -> Answer:
        assert send.body is not None
        assert send.body.begin() == b'{"ttl":15.0,"holder":"h","session":"id-1"}'
        return answer({"session": "id-1", "ttl": 15, "holder": "h"})

    world = World((1.0, CUT), begin)
    lease = world.run(service.begin_session(world.caller, "h", 15.0, None))
    assert lease.expires_in == 15.0


def test_a_service_that_knows_no_processes_gets_the_session_without_one() -> None:
    asked = []

    def noted(send: Send) -> None:
        assert send.body is not None
        sent = send.body.begin()
        assert isinstance(sent, bytes)
        asked.append(json.loads(sent))

    def refuse(send: Send) -> Answer:
        noted(send)
        return problem(Code.INVALID_REQUEST)

    def begin(send: Send) -> Answer:
        noted(send)
        return answer({"session": "id-1", "ttl": 15, "holder": "h"}, status=201)

    world = World(refuse, begin)
    process = Process("spark-1", 4711, "a\nb", "javascript:alert(1)")
    world.run(service.begin_session(world.caller, "h", 15.0, None, process=process))
    plain = {"ttl": 15.0, "holder": "h", "session": "id-1"}
    assert asked == [{**plain, "process": {"host": "spark-1", "pid": 4711}}, plain]


def test_a_ttl_that_the_service_would_refuse_is_refused_at_once() -> None:
    world = World()
    with pytest.raises(InvalidRequest, match="ttl"):
        world.run(service.begin_session(world.caller, "h", 0.5, None))


def test_a_session_that_was_begun_but_not_understood_is_of_unknown_outcome() -> None:
    world = World(*[answer({"session": "another", "ttl": 15})] * 1000)
    with pytest.raises(OutcomeUnknown):
        world.run(service.begin_session(world.caller, "h", 15.0, None))


def test_ending_a_session_that_has_ended_is_fine_and_short() -> None:
    world = World(problem(Code.SESSION_EXPIRED))
    lease = begun(world)
    world.run(service.end_session(world.caller, lease))
    assert lease.lost
    world = World(*[NO_LEADER] * 1000)
    lease = begun(world)
    with pytest.raises(Exception, match="no-leader"):
        world.run(service.end_session(world.caller, lease))
    assert world.now - 1000.0 <= 2.0
