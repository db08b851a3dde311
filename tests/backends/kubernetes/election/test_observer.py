"""When a holder is over: by the time on our own clock for which its Lease has not changed, and by nothing else."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from milepost_backends.kubernetes.election.lease import ADVERTISE, RELEASED, Lease, LeaseObserver

pytestmark = pytest.mark.kubernetes

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
def observer(clock: Clock) -> LeaseObserver:
    return LeaseObserver("milepost", LEAST, clock)


def test_what_was_never_seen_is_free_and_old(observer: LeaseObserver) -> None:
    assert observer.wait(None) == 0
    assert observer.leader() is None
    assert observer.age() == float("inf")


def test_a_holder_is_over_once_its_lease_has_not_changed_for_its_duration(
    observer: LeaseObserver, clock: Clock
) -> None:
    observer.note(lease("1"), clock.now)
    assert observer.wait(lease("1")) == 15
    assert observer.leader() == URL
    clock.now += 14
    observer.note(lease("1"), clock.now)  # seen again, the same
    assert observer.wait(lease("1")) == 1
    clock.now += 1
    assert observer.wait(lease("1")) == 0
    assert observer.leader() is None


def test_a_change_begins_it_anew(observer: LeaseObserver, clock: Clock) -> None:
    observer.note(lease("1"), clock.now)
    clock.now += 14
    observer.note(lease("2"), clock.now)
    assert observer.wait(lease("2")) == 15


def test_a_lease_that_was_made_again_is_another_one(observer: LeaseObserver, clock: Clock) -> None:
    observer.note(lease("1"), clock.now)
    clock.now += 14
    observer.note(lease("1", uid="v"), clock.now)
    assert observer.wait(lease("1", uid="v")) == 15


def test_what_the_lease_says_of_the_time_does_not_matter(observer: LeaseObserver, clock: Clock) -> None:
    past, future = "1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"
    observer.note(lease("1", renewed=past), clock.now)
    assert observer.wait(lease("1", renewed=past)) == 15
    observer.note(lease("2", renewed=future), clock.now)
    clock.now += 15
    assert observer.wait(lease("2", renewed=future)) == 0


@pytest.mark.parametrize("seconds", [1, None])
def test_nobody_shortens_a_live_holders_time_by_an_edit(
    observer: LeaseObserver, clock: Clock, seconds: int | None
) -> None:
    observer.note(lease("1", seconds=seconds), clock.now)
    assert observer.wait(lease("1", seconds=seconds)) == LEAST


@pytest.mark.parametrize("released_by", [HOLDER, None])
def test_a_lease_that_was_never_seen_held_is_free_at_once(
    observer: LeaseObserver, clock: Clock, released_by: str | None
) -> None:
    assert observer.wait(None) == 0
    observer.note(lease("2", holder="", released_by=released_by), clock.now)
    assert observer.wait(lease("2", holder="", released_by=released_by)) == 0


def test_a_released_lease_is_free_at_once(observer: LeaseObserver, clock: Clock) -> None:
    free = lease("2", holder="", seconds=1, released_by=HOLDER)
    observer.note(lease("1"), clock.now)
    assert observer.wait(free) == 0
    observer.note(free, clock.now)
    assert observer.wait(free) == 0
    assert observer.leader() is None
    observer.note(None, clock.now)  # deleted after that
    assert observer.wait(None) == 0


MISSING: Final = [
    None,
    lease("2", holder="", seconds=1),
    lease("2", holder="", released_by=f"{URL}#0"),  # of a holder before, as in a copy that was put back
]


@pytest.mark.parametrize("missing", MISSING)
def test_a_holder_whose_name_or_lease_another_hand_took_away_is_waited_for(
    observer: LeaseObserver, clock: Clock, missing: Lease | None
) -> None:
    """It may be certain that it leads: it learns of that by its next renewal alone, or when it cannot renew."""
    observer.note(lease("1"), clock.now)
    clock.now += 14
    assert observer.wait(missing) == 15
    observer.note(missing, clock.now)
    assert observer.wait(missing) == 15
    assert observer.leader() is None
    clock.now += 14
    observer.note(missing, clock.now)
    assert observer.wait(missing) == 1
    clock.now += 1
    assert observer.wait(missing) == 0


def test_who_is_missing_is_waited_for_from_when_that_was_first_seen(observer: LeaseObserver, clock: Clock) -> None:
    """Whatever else is done to the Lease meanwhile; but one that is taken counts from then."""
    observer.note(lease("1", seconds=1), clock.now)
    observer.note(None, clock.now)
    assert observer.wait(None) == LEAST
    clock.now += 2
    observer.note(lease("2", holder="", uid="v"), clock.now)
    observer.note(lease("3", holder="", uid="v"), clock.now)
    assert observer.wait(lease("3", holder="", uid="v")) == 1
    observer.note(lease("4", uid="v"), clock.now)
    assert observer.wait(lease("4", uid="v")) == 15
    observer.note(None, clock.now)
    assert observer.wait(None) == 15


def test_nobody_lengthens_a_dead_holders_time_without_a_limit(
    observer: LeaseObserver, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for_ever = lease("1", seconds=2**31 - 1)
    observer.note(for_ever, clock.now)
    observer.note(for_ever, clock.now)
    assert observer.wait(for_ever) == 3600
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    observer.note(None, clock.now)
    assert observer.wait(None) == 3600


def test_what_another_look_saw_meanwhile_frees_nothing(observer: LeaseObserver, clock: Clock) -> None:
    """One look finds the Lease held anew; another one, answered between, had found it released or long unchanged."""
    observer.note(lease("1"), clock.now)
    clock.now += 15
    assert observer.wait(lease("2")) == 15
    observer.note(lease("3", holder="", seconds=1), clock.now)
    assert observer.wait(lease("4")) == 15


def test_an_answer_that_was_overtaken_does_not_count(observer: LeaseObserver, clock: Clock) -> None:
    asked_first = clock.now
    clock.now += 1
    observer.note(lease("2"), clock.now)
    clock.now += 1
    observer.note(lease("1", holder=""), asked_first)
    assert observer.leader() == URL
    assert observer.wait(lease("2")) == 14


def test_a_lease_of_somebody_else_names_no_leader_of_ours(clock: Clock) -> None:
    observer = LeaseObserver("other", LEAST, clock)
    observer.note(lease("1"), clock.now)
    assert observer.wait(lease("1")) == 15
    assert observer.leader() is None


def test_how_old_a_look_is_counts_from_before_it(observer: LeaseObserver, clock: Clock) -> None:
    asked = clock.now
    clock.now += 2
    observer.note(lease("1"), asked)
    assert observer.age() == 2
