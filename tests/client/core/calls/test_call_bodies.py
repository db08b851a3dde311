"""A call sends its bytes once or several times, and large ones to the leader alone. Scripted answers, virtual time."""

from __future__ import annotations

import hashlib

import pytest

from milepost.core.effects import Answer
from milepost.errors import (
    AlreadyExists,
    ConnectionFailed,
    OutcomeUnknown,
    Unavailable,
)
from milepost.wire import Code, digest_header
from tests.client.core.world import (
    CUT,
    NO_LEADER,
    NOT_THERE,
    OK,
    REFUSED,
    SILENT,
    A,
    B,
    C,
    World,
    adding,
    answer,
    call,
    problem,
    to_leader,
)


def test_a_body_is_sent_again_with_its_digest_and_length() -> None:
    world = World(CUT, OK)
    call(world, adding([b"st", b"ate"]))
    assert world.bodies == [b"state", b"state"]
    assert world.header("Content-Length") == ["5", "5"]
    assert world.header("Content-Digest") == [digest_header(hashlib.sha256(b"state").hexdigest())] * 2


def test_what_comes_only_once_survives_a_refused_connection() -> None:
    world = World(OK, REFUSED, OK, OK)
    call(world, adding(iter([b"st", b"ate"])))
    assert [send.method for send in world.sent] == ["HEAD", "POST", "HEAD", "POST"]
    assert world.bodies == [None, None, None, b"state"]
    assert world.header("Content-Digest") == [None] * 4


def test_what_comes_only_once_and_was_taken_is_not_sent_again() -> None:
    world = World(OK, CUT)
    with pytest.raises(OutcomeUnknown):
        call(world, adding(iter([b"state"])))
    world = World(OK, NO_LEADER)
    with pytest.raises(Unavailable):
        call(world, adding(iter([b"state"])))
    world = World(OK, to_leader(B))
    with pytest.raises(ConnectionFailed, match="only once"):
        call(world, adding(iter([b"state"])))


def test_the_leader_is_found_before_bytes_that_come_only_once_set_out() -> None:
    world = World(to_leader(C), NOT_THERE, OK)
    call(world, adding(iter([b"st", b"ate"])))
    assert [send.method for send in world.sent] == ["HEAD", "HEAD", "POST"]
    assert world.targets == [A, C, C]


@pytest.mark.parametrize("scouted", [answer(status=500), answer(status=401)])
def test_what_the_leader_says_to_the_bytes_counts_not_what_it_said_to_the_scout(scouted: Answer) -> None:
    world = World(scouted, problem(Code.ALREADY_EXISTS))
    with pytest.raises(AlreadyExists):
        call(world, adding(iter([b"x"])))


def test_many_bytes_are_not_sent_to_whomever() -> None:
    many = adding(b"x" * 100_000)
    world = World(to_leader(C), NOT_THERE, OK, OK, CUT, to_leader(B), OK, OK)
    call(world, many)
    call(world, many)
    call(world, many)  # the leader moved
    assert [send.method for send in world.sent] == ["HEAD", "HEAD", "POST", "POST", "POST", "HEAD", "HEAD", "POST"]
    assert world.targets == [A, C, C, C, C, A, B, B]
    assert world.header("Milepost-Attempt")[-1] == "2"


def test_finding_the_leader_counts_against_the_deadline_and_knows_what_was_before() -> None:
    world = World(*[NO_LEADER] * 1000)
    with pytest.raises(Unavailable):
        call(world, adding(iter([b"x"])), timeout=5.0)
    assert world.now - 1000.0 <= 5.0
    world = World(NOT_THERE, CUT, *[NO_LEADER] * 1000)
    with pytest.raises(OutcomeUnknown):
        call(world, adding(b"x" * 100_000), timeout=5.0)


@pytest.mark.parametrize("rest", [0.0, 0.5], ids=["no time is left", "the search for the leader is cut"])
def test_a_write_that_the_deadline_cut_says_what_the_leader_answered_before(rest: float) -> None:
    unavailable = problem(Code.STORAGE_UNAVAILABLE)
    world = World(NOT_THERE, unavailable, (3.0 - rest, SILENT), *[(0.01, NO_LEADER)] * 100, addresses=[A, B])
    with pytest.raises(OutcomeUnknown, match="before that: storage-unavailable: as scripted") as raised:
        call(world, adding(b"x" * 100_000), timeout=3.0)
    assert "could not be found" not in str(raised.value)
    assert "nothing was sent" not in str(raised.value)
    world = World(NOT_THERE, unavailable, (3.0, REFUSED), addresses=[A])
    with pytest.raises(Unavailable):
        call(world, adding(b"x" * 100_000), timeout=3.0)
