"""What is an outage, and what is damage."""

from __future__ import annotations

import logging

import pytest

from milepost.core.calls.outages import hindrance
from milepost.core.calls.request import Request
from milepost.core.effects import Answer, Lost
from milepost.errors import (
    AccessDenied,
    BlobMissing,
    ConnectionFailed,
    Corrupt,
    MilepostError,
    NotExist,
    ServerFault,
    StateTruncated,
    Unavailable,
    VersionMismatch,
)
from milepost.wire import Code
from tests.client.core.world import NO_LEADER, REFUSED, A, B, World, answer, problem, to_leader

READ: Request[object] = Request("GET", "/v1/stores/s/handles?token=very-secret")
OK = answer({})
UNTRUSTED = Lost("its certificate is not trusted", sent=False, unreachable=True, untrusted=True)


def truncated(cause: Exception | None) -> StateTruncated:
    error = StateTruncated("3 of 10 bytes came")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "obstacle",
    [ConnectionFailed("reset"), Unavailable(Code.NO_LEADER), ServerFault(Code.INTERNAL), AccessDenied(Code.FORBIDDEN)],
)
def test_what_stands_in_the_way_says_nothing_of_the_state(obstacle: MilepostError) -> None:
    assert hindrance(obstacle) is obstacle
    assert hindrance(truncated(obstacle)) is obstacle


@pytest.mark.parametrize(
    "damage",
    [
        Corrupt(Code.CORRUPT),
        BlobMissing(Code.BLOB_MISSING),
        NotExist(Code.NOT_EXIST),
        VersionMismatch(Code.VERSION_MISMATCH),
    ],
)
def test_damage_and_loss_are_no_outage(damage: MilepostError) -> None:
    assert hindrance(damage) is None
    assert hindrance(truncated(damage)) is None


@pytest.mark.parametrize("cause", [None, ValueError("no archive")])
def test_bytes_that_are_wrong_are_no_outage(cause: Exception | None) -> None:
    assert hindrance(truncated(cause)) is None


@pytest.fixture(autouse=True)
def _everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "milepost")


def records_of(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_the_first_retry_is_a_warning_and_who_answered_in_the_end_an_information(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(REFUSED, NO_LEADER, (2.0, REFUSED), *[NO_LEADER] * 9, to_leader(B), OK, OK)
    world.run(world.caller.call(READ))
    world.run(world.caller.call(READ))
    (_, first), (_, last) = records_of(caplog)
    assert [level for level, _ in records_of(caplog)] == ["WARNING", "INFO"]
    assert first == f"GET /v1/stores/s/handles failed at {A} (connection refused): asking {B}"
    assert last.startswith(f"replica {B} is the leader, found after ")
    assert 2.0 < float(last.split()[-2]) < 10.0


def test_what_comes_next_is_said_to_a_single_address_too(caplog: pytest.LogCaptureFixture) -> None:
    world = World(*[REFUSED] * 1000, addresses=[A])
    with pytest.raises(ConnectionFailed):
        world.run(world.caller.call(READ, timeout=10.0))
    ((level, text),) = records_of(caplog)
    assert level == "WARNING"
    assert text.endswith("(connection refused): asking again in 0.03 s, for 10 s at most")


def test_who_never_reached_a_replica_that_it_trusts_waits_for_none(caplog: pytest.LogCaptureFixture) -> None:
    """No time mends that, so the error tells of it at once, and the log says nothing more."""
    world = World(UNTRUSTED, UNTRUSTED, addresses=[A, B])
    with pytest.raises(ConnectionFailed, match="not trusted"):
        world.run(world.caller.call(READ))
    assert (len(world.sent), world.now, records_of(caplog)) == (2, 1000.0, [])


@pytest.mark.parametrize("before", [[OK], [REFUSED]], ids=["a service that was trusted", "a replica that is away"])
def test_a_certificate_that_may_be_exchanged_is_waited_for(before: list[Answer | Lost]) -> None:
    world = World(*before, UNTRUSTED, UNTRUSTED, UNTRUSTED, OK, addresses=[A, B])
    while world.script:
        world.run(world.caller.call(READ))


def test_a_long_outage_is_logged_again_and_many_calls_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World(*[REFUSED] * 10_000, addresses=[A])
    for _ in range(20):
        with pytest.raises(MilepostError):
            world.run(world.caller.call(READ, timeout=5.0))
    assert [level for level, _ in records_of(caplog)] == ["WARNING"] * 4


def test_the_next_outage_is_logged_anew(caplog: pytest.LogCaptureFixture) -> None:
    world = World(*[REFUSED] * 9, (2.0, OK), REFUSED, OK, addresses=[A])
    world.run(world.caller.call(READ))
    world.run(world.caller.call(READ))
    assert [level for level, _ in records_of(caplog)] == ["WARNING", "INFO", "WARNING", "INFO"]
    assert records_of(caplog)[-1][1].startswith(f"replica {A} answers again, found after ")


def test_a_new_leader_is_logged_where_nothing_failed(caplog: pytest.LogCaptureFixture) -> None:
    world = World(OK, to_leader(B), OK, OK)
    for _ in range(3):
        world.run(world.caller.call(READ))
    ((level, text),) = records_of(caplog)
    assert (level, text) == ("INFO", f"replica {B} is the leader now, instead of {A}, found after 0.0 s")


def test_a_service_that_is_busy_for_a_moment_now_and_then_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(*[problem(Code.TOO_MANY_REQUESTS), OK] * 50, addresses=[A])
    for _ in range(50):
        world.run(world.caller.call(READ))
    assert len(records_of(caplog)) <= 4


def test_no_secret_and_no_second_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "milepost")
    sly = problem(Code.NO_LEADER)
    world = World(
        answer(status=307, location="https://u:very-secret@b/v1/stores/s/handles?token=very-secret"),
        answer(status=307, location="http://b/?X-Amz-Signature=very-secret"),
        type(sly)(503, sly.headers, sly.body.replace(b"as scripted", b"one\\nWARNING two" + b"x" * 5000)),
        *[REFUSED] * 1000,
    )
    world.caller = world.make_caller(token="very-secret")
    with pytest.raises(ConnectionFailed):
        world.run(world.caller.call(READ, timeout=3.0))
    assert "very-secret" not in caplog.text
    assert all("\n" not in text and len(text) < 500 for _, text in records_of(caplog))
    assert any("one?WARNING two" in text for _, text in records_of(caplog))
