"""A keeper that could not run is told from a service that did not answer, in virtual time."""

from __future__ import annotations

import pytest

from milepost.core.effects import Answer, Emit, Operation, Send
from milepost.core.lease import Lease, keep
from milepost.core.standstill import EVENT_LOOP, INTERPRETER, Runner, Standstill
from milepost.errors import SessionExpired
from milepost.wire import Code
from tests.client.core.test_lease import ALIVE
from tests.client.core.world import NO_LEADER, SILENT, Reaction, World, problem


class Held(World):
    """A world in which the sleeps take more than was asked for: the first by ``late[0]`` seconds, the next by
    ``late[1]``. Of this, the share ``busy`` is CPU time of the process.
    """

    def __init__(self, *script: Reaction, late: list[float], busy: float = 0.0) -> None:
        super().__init__(*script)
        self.late = late
        self.busy = busy
        self.cpu = 50.0
        self.lease = Lease("s1", 15.0, self.now, lambda: self.now)
        self.lease.standstill = Standstill(lambda: self.now, lambda: self.cpu)

    def sleep(self, seconds: float) -> None:
        late = self.late.pop(0) if self.late else 0.0
        self.cpu += late * self.busy
        super().sleep(seconds + late)


@pytest.mark.parametrize(
    ("busy", "runner", "said"),
    [
        (0.9, INTERPRETER, "Python stood still for 24.0 s, in which the process used 21.6 s of CPU time: a call kept"),
        (0.0, INTERPRETER, "Python stood still for 24.0 s, in which the process used 0.0 s of CPU time: .* stopped"),
        (0.9, EVENT_LOOP, r"event loop of this session stood still for 24.0 s.* computed.* \(asyncio.to_thread\)"),
        (0.0, EVENT_LOOP, r"event loop of this session stood still for 24.0 s.* blocked.* \(asyncio.to_thread\)"),
    ],
)
def test_a_lease_lost_by_a_standstill_says_so_and_what_ttl_outlasts_it(busy: float, runner: Runner, said: str) -> None:
    world = Held(ALIVE, late=[0.0, 0.0, 0.0, 0.0, 0.0, 24.0], busy=busy)
    reason = world.run(keep(world.caller, world.lease, runner))
    assert reason.startswith("not renewed within 15 s; meanwhile ")
    assert reason.endswith("a ttl of at least 48 s")
    with pytest.raises(SessionExpired, match=said):
        world.lease.raise_if_lost()
    assert world.lease.stood_still == pytest.approx(24.0)


def test_whoever_looks_before_the_keeper_runs_again_is_told_the_same() -> None:
    world = Held(late=[])
    keeping = keep(world.caller, world.lease)
    next(keeping)  # asleep for a second
    world.now += 25.0
    assert "stood still for 24.0 s" in world.lease.reason
    assert world.lease.stood_still == pytest.approx(24.0)


def test_many_short_standstills_count_together() -> None:
    """Each lets the keeper run for a moment, which is too little for a request."""
    world = Held(*[SILENT] * 100, late=[2.0] * 100)
    reason = world.run(keep(world.caller, world.lease))
    assert "stood still for" in reason


def test_a_session_that_the_service_ended_meanwhile_has_the_same_cause() -> None:
    world = Held(problem(Code.SESSION_EXPIRED), late=[9.0])
    reason = world.run(keep(world.caller, world.lease))
    assert "session-expired" in reason
    assert "stood still for 9.0 s" in reason


@pytest.mark.parametrize("late", [[], [0.01] * 10_000, [4.0], [7.0]])
def test_an_outage_is_not_blamed_on_a_keeper_that_ran(late: list[float]) -> None:
    world = Held(*[NO_LEADER] * 10_000, late=late)
    assert world.run(keep(world.caller, world.lease)) == "not renewed within 15 s"


def test_what_was_before_a_renewal_is_forgotten() -> None:
    world = Held(ALIVE, *[NO_LEADER] * 10_000, late=[8.0])
    assert world.run(keep(world.caller, world.lease)) == "not renewed within 15 s"
    assert world.lease.stood_still == 0.0


def test_a_keeper_that_was_ended_does_not_count_as_held_up() -> None:
    """As that of a session that is detached."""
    world = Held(late=[])
    keeping = keep(world.caller, world.lease)
    next(keeping)
    keeping.close()
    world.now += 25.0
    assert world.lease.reason == "not renewed within 15 s"


def test_a_forked_child_has_no_keeper_that_could_be_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Held(late=[])
    keeping = keep(world.caller, world.lease)
    next(keeping)
    monkeypatch.setattr("os.getpid", lambda: 1)
    world.now += 25.0
    assert world.lease.reason == "not renewed within 15 s"


def test_the_ttl_that_is_advised_is_one_that_the_service_takes() -> None:
    world = Held(late=[5000.0])
    assert world.run(keep(world.caller, world.lease)).endswith("a ttl of at least 3600 s")


def test_what_is_carried_out_is_handed_through() -> None:
    world = Held(late=[])

    def operation() -> Operation[Answer]:
        yield Emit("item")
        answer: Answer = yield Send("GET", "http://a:7070/", {}, None, 1.0)
        return answer

    world.script = [ALIVE]
    assert world.run(world.lease.standstill.watch(operation())) is ALIVE
    assert world.emitted == ["item"]
