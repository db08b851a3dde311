"""When a holder is over: by the time on our own clock for which its Lease has not changed, and by nothing else."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from backends.kubernetes.election.lease import ADVERTISE, RELEASED, Lease
from backends.kubernetes.election.sight import Sight

URL = "http://one:7070"
LEAST = 3.0
HOLDER: Final = f"{URL}#1"


class Clock:
    """Stands still until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def lease(
    version: str,
    *,
    holder: str = HOLDER,
    seconds: int | None = 15,
    renewed: str = "",
    uid: str = "u",
    released_by: str | None = None,
) -> Lease:
    metadata = {
        "uid": uid,
        "resourceVersion": version,
        "labels": {"milepost/deployment": "milepost"},
        "annotations": {ADVERTISE: URL} | ({RELEASED: released_by} if released_by else {}),
    }
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed}
    return Lease.read(msgspec.json.encode({"metadata": metadata, "spec": spec}))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sight(clock: Clock) -> Sight:
    return Sight("milepost", LEAST, clock)


def test_what_was_never_seen_is_free_and_old(sight: Sight) -> None:
    assert sight.wait(None) == 0
    assert sight.leader() is None
    assert sight.age() == float("inf")


def test_a_holder_is_over_once_its_lease_has_not_changed_for_its_duration(sight: Sight, clock: Clock) -> None:
    sight.note(lease("1"), clock.now)
    assert sight.wait(lease("1")) == 15
    assert sight.leader() == URL
    clock.now += 14
    sight.note(lease("1"), clock.now)  # seen again, the same
    assert sight.wait(lease("1")) == 1
    clock.now += 1
    assert sight.wait(lease("1")) == 0
    assert sight.leader() is None


def test_a_change_begins_it_anew(sight: Sight, clock: Clock) -> None:
    sight.note(lease("1"), clock.now)
    clock.now += 14
    sight.note(lease("2"), clock.now)
    assert sight.wait(lease("2")) == 15


def test_a_lease_that_was_made_again_is_another_one(sight: Sight, clock: Clock) -> None:
    sight.note(lease("1"), clock.now)
    clock.now += 14
    sight.note(lease("1", uid="v"), clock.now)
    assert sight.wait(lease("1", uid="v")) == 15


def test_what_the_lease_says_of_the_time_does_not_matter(sight: Sight, clock: Clock) -> None:
    past, future = "1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"
    sight.note(lease("1", renewed=past), clock.now)
    assert sight.wait(lease("1", renewed=past)) == 15
    sight.note(lease("2", renewed=future), clock.now)
    clock.now += 15
    assert sight.wait(lease("2", renewed=future)) == 0


@pytest.mark.parametrize("seconds", [1, None])
def test_nobody_shortens_a_live_holders_time_by_an_edit(sight: Sight, clock: Clock, seconds: int | None) -> None:
    sight.note(lease("1", seconds=seconds), clock.now)
    assert sight.wait(lease("1", seconds=seconds)) == LEAST


@pytest.mark.parametrize("released_by", [HOLDER, None])
def test_a_lease_that_was_never_seen_held_is_free_at_once(sight: Sight, clock: Clock, released_by: str | None) -> None:
    assert sight.wait(None) == 0
    sight.note(lease("2", holder="", released_by=released_by), clock.now)
    assert sight.wait(lease("2", holder="", released_by=released_by)) == 0


def test_a_released_lease_is_free_at_once(sight: Sight, clock: Clock) -> None:
    free = lease("2", holder="", seconds=1, released_by=HOLDER)
    sight.note(lease("1"), clock.now)
    assert sight.wait(free) == 0
    sight.note(free, clock.now)
    assert sight.wait(free) == 0
    assert sight.leader() is None
    sight.note(None, clock.now)  # deleted after that
    assert sight.wait(None) == 0


MISSING: Final = [
    None,
    lease("2", holder="", seconds=1),
    lease("2", holder="", released_by=f"{URL}#0"),  # of a holder before, as in a copy that was put back
]


@pytest.mark.parametrize("missing", MISSING)
def test_a_holder_whose_name_or_lease_another_hand_took_away_is_waited_for(
    sight: Sight, clock: Clock, missing: Lease | None
) -> None:
    """It may be certain that it leads: it learns of that by its next renewal alone, or when it cannot renew."""
    sight.note(lease("1"), clock.now)
    clock.now += 14
    assert sight.wait(missing) == 15
    sight.note(missing, clock.now)
    assert sight.wait(missing) == 15
    assert sight.leader() is None
    clock.now += 14
    sight.note(missing, clock.now)
    assert sight.wait(missing) == 1
    clock.now += 1
    assert sight.wait(missing) == 0


def test_who_is_missing_is_waited_for_from_when_that_was_first_seen(sight: Sight, clock: Clock) -> None:
    """Whatever else is done to the Lease meanwhile; but one that is taken counts from then."""
    sight.note(lease("1", seconds=1), clock.now)
    sight.note(None, clock.now)
    assert sight.wait(None) == LEAST
    clock.now += 2
    sight.note(lease("2", holder="", uid="v"), clock.now)
    sight.note(lease("3", holder="", uid="v"), clock.now)
    assert sight.wait(lease("3", holder="", uid="v")) == 1
    sight.note(lease("4", uid="v"), clock.now)
    assert sight.wait(lease("4", uid="v")) == 15
    sight.note(None, clock.now)
    assert sight.wait(None) == 15


def test_nobody_lengthens_a_dead_holders_time_without_a_limit(
    sight: Sight, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for_ever = lease("1", seconds=2**31 - 1)
    sight.note(for_ever, clock.now)
    sight.note(for_ever, clock.now)
    assert sight.wait(for_ever) == 3600
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    sight.note(None, clock.now)
    assert sight.wait(None) == 3600


def test_what_another_look_saw_meanwhile_frees_nothing(sight: Sight, clock: Clock) -> None:
    """One look finds the Lease held anew; another one, answered between, had found it released or long unchanged."""
    sight.note(lease("1"), clock.now)
    clock.now += 15
    assert sight.wait(lease("2")) == 15
    sight.note(lease("3", holder="", seconds=1), clock.now)
    assert sight.wait(lease("4")) == 15


def test_an_answer_that_was_overtaken_does_not_count(sight: Sight, clock: Clock) -> None:
    asked_first = clock.now
    clock.now += 1
    sight.note(lease("2"), clock.now)
    clock.now += 1
    sight.note(lease("1", holder=""), asked_first)
    assert sight.leader() == URL
    assert sight.wait(lease("2")) == 14


def test_a_lease_of_somebody_else_names_no_leader_of_ours(clock: Clock) -> None:
    sight = Sight("other", LEAST, clock)
    sight.note(lease("1"), clock.now)
    assert sight.wait(lease("1")) == 15
    assert sight.leader() is None


def test_how_old_a_look_is_counts_from_before_it(sight: Sight, clock: Clock) -> None:
    asked = clock.now
    clock.now += 2
    sight.note(lease("1"), asked)
    assert sight.age() == 2
