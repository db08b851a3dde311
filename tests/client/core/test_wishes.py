"""How a driver learns of a wish, and who asks of its effect, against scripted answers in virtual time."""

from __future__ import annotations

import pytest

from milepost.core.effects import Answer
from milepost.core.wishes import POLL_SECONDS, stop_job, wait_for_end, wait_for_wish
from milepost.errors import DeadlineExceeded, NotSupported
from milepost.wire import Code
from tests.client.core.test_watch import CUT, DEAD, Watched, block, calls, epoch, stream
from tests.client.core.world import World, problem

LED = epoch(7, 3, "a")
STOP = block("9", "stop-requested", epoch=3)


def wished(world: World, timeout: float | None = 100.0) -> tuple[str, int] | None:
    """What the driver of epoch 3 learns."""
    driver = calls(world)
    driver.epoch = 3
    found = world.run(wait_for_wish(driver, timeout))
    return None if found is None else (found.kind, found.epoch)


def test_a_driver_reads_the_wish_once_an_event_tells_of_it() -> None:
    world = Watched(
        LED,
        stream(block("7"), block("8", "cleared"), STOP),
        epoch(9, 3, "a", ("stop", 3)),
    )
    assert wished(world) == ("stop", 3)
    assert world.header("Last-Event-ID")[1] == "7"
    assert world.slept == []


def test_a_wish_from_before_the_driver_watches_is_heeded_and_one_about_another_epoch_is_not() -> None:
    assert wished(Watched(epoch(7, 3, "a", ("hand-over", 3)))) == ("hand-over", 3)
    with pytest.raises(DeadlineExceeded):
        wished(Watched(epoch(7, 3, "a", ("stop", 2)), stream(block("7"), CUT)))


@pytest.mark.parametrize("ended", [epoch(9, 3), epoch(9, 4, "b"), epoch(9, 3, None, ("stop", 3))])
def test_a_driver_whose_epoch_has_ended_waits_for_no_wish(ended: Answer) -> None:
    assert wished(Watched(LED, stream(block("9", "epoch-ended", epoch=3, session="a")), ended), None) is None


@pytest.mark.parametrize("code", [Code.NOT_SUPPORTED, Code.COMPACTED, Code.FORBIDDEN, Code.NO_ROUTE])
def test_without_events_the_epoch_is_read_from_time_to_time(code: Code) -> None:
    world = Watched(LED, problem(code), LED, problem(code), epoch(9, 3, "a", ("stop", 3)))
    assert wished(world) == ("stop", 3)
    assert world.slept == [POLL_SECONDS] * 2


def test_a_stream_that_brings_no_events_is_not_relied_on() -> None:
    """A proxy may take the connection, and keep every byte for itself."""
    silent = [stream(block("7"), DEAD), stream(block("7"), DEAD)]
    world = Watched(LED, (POLL_SECONDS, silent[0]), epoch(9, 3, "a", ("stop", 3)))
    assert wished(world) == ("stop", 3)
    assert world.now <= 1000.0 + 2 * POLL_SECONDS


def test_outages_do_not_end_the_wait() -> None:
    away = problem(Code.NO_LEADER)
    world = Watched(*[(3.0, away)] * 15, LED, stream(block("7"), STOP), epoch(9, 3, "a", ("stop", 3)))
    assert wished(world, None) == ("stop", 3)


def test_who_waits_for_the_end_of_an_epoch_is_told_who_leads_then_or_that_it_lasts() -> None:
    ended = Watched(LED, stream(block("9", "epoch-ended", epoch=3, session="a")), epoch(9, 4, "b"))
    assert ended.run(wait_for_end(calls(ended), 3, 60.0)).session == "b"
    lasts = Watched(LED, stream(block("7"), CUT))
    with pytest.raises(DeadlineExceeded, match="epoch 3 of s has not ended within 60 s"):
        lasts.run(wait_for_end(calls(lasts), 3, 60.0))


def test_a_service_of_an_earlier_release_cannot_ask_a_driver() -> None:
    for code in (Code.NO_ROUTE, Code.METHOD_NOT_ALLOWED):
        world = Watched(problem(code))
        with pytest.raises(NotSupported, match="SIGTERM"):
            world.run(stop_job(world.caller, "s", None, "anna", "", None))
