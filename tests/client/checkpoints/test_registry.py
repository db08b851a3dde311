"""The scenarios of Flink's completed checkpoint stores, over the real service. A and B are two drivers' sessions.

The contract suite runs them over its deployments as well, which is why they are numbered (``Checkpoints 1``).
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost.checkpoints import CheckpointRegistry, CleanUpLags, NoIntactCheckpoint
from milepost.checkpoints.records import name_of
from milepost.store import StateHandleStore
from milepost.wire import Code
from tests.client.conftest import Service, serving

Damage = Callable[[bytes], None]


@pytest.fixture
def a(blocking: milepost.Client, name: str) -> Iterator[StateHandleStore]:
    with blocking.session(holder="a") as session:
        yield session.store(name)


@pytest.fixture
def b(blocking: milepost.Client, name: str) -> Iterator[StateHandleStore]:
    with blocking.session(holder="b") as session:
        yield session.store(name)


@pytest.fixture
def damage(service: Service) -> Damage:
    """Flips the bytes of a stored state where the service keeps them."""

    def act(of: bytes) -> None:
        blob = service.blob(of)
        blob.chmod(0o600)
        blob.write_bytes(flipped(of))

    return act


def flipped(state: bytes) -> bytes:
    """Other bytes of the same size."""
    return bytes(byte ^ 1 for byte in state)


def numbers(store: StateHandleStore) -> list[str]:
    """The checkpoints that are in the store, without padding."""
    return [handle.name.replace("-" + "0" * 18, "-") for handle in store.get_all_handles()]


def state(number: int, store: StateHandleStore) -> bytes:
    """A state that occurs nowhere else."""
    return f"{store.name} {number}".encode()


class Failing(StateHandleStore):
    """The real store, but removals fail while ``outage`` is set: the real service fails all calls or none."""

    outage: milepost.MilepostError | None = None

    @classmethod
    def around(cls, store: StateHandleStore) -> Failing:
        return cls(store._driver, store._operations)

    def release_and_try_remove(self, *arguments: Any, **named: Any) -> milepost.Removal:
        if self.outage is not None:
            raise self.outage
        return super().release_and_try_remove(*arguments, **named)


class Doubtful(StateHandleStore):
    """The real store, but the answer to an add is lost: before it arrived, or after it was applied (``is_committed``),
    with its ``labels`` or without.
    """

    is_committed = True
    labels = True

    @classmethod
    def around(cls, store: StateHandleStore, is_committed: bool, labels: bool = True) -> Doubtful:
        doubtful = cls(store._driver, store._operations)
        doubtful.is_committed, doubtful.labels = is_committed, labels
        return doubtful

    def add_and_lock(self, name: str, state: Any, labels: Any = None, **named: Any) -> milepost.Handle:
        if self.is_committed:
            super().add_and_lock(name, state, labels if self.labels else None, **named)
        raise milepost.OutcomeUnknown(Code.OUTCOME_UNKNOWN, "the answer was lost", retryable=False)


def test_retain_one_keeps_the_last_checkpoint_beside_the_last_savepoint(a: StateHandleStore) -> None:
    """Checkpoints 1."""
    registry = CheckpointRegistry(a, retain=1)
    for number, savepoint in enumerate([False, False, True, True, True], 1):
        registry.add(number, state(number, a), savepoint=savepoint)
    assert [checkpoint.number for checkpoint in registry.checkpoints] == [2, 5]
    assert numbers(a) == ["checkpoint-2", "checkpoint-5"]


def test_a_checkpoint_after_a_savepoint_replaces_both(a: StateHandleStore) -> None:
    """Checkpoints 2."""
    registry = CheckpointRegistry(a, retain=1)
    registry.add(1, b"1")
    registry.add(2, b"2", savepoint=True)
    registry.add(3, b"3")
    assert numbers(a) == ["checkpoint-3"]


def test_as_many_as_are_retained_all_stay(a: StateHandleStore) -> None:
    """Checkpoints 3."""
    registry = CheckpointRegistry(a, retain=3)
    for number in (1, 2, 3):
        registry.add(number, state(number, a))
    assert numbers(a) == ["checkpoint-1", "checkpoint-2", "checkpoint-3"]


def test_recovery_is_in_numeric_order_also_of_names_that_are_not_padded(a: StateHandleStore) -> None:
    """Checkpoints 4."""
    for number in (9, 10, 11):
        a.add_and_lock(f"checkpoint-{number}", state(number, a))
    recovery = CheckpointRegistry(a, retain=3).recover()
    assert [checkpoint.number for checkpoint in recovery.checkpoints] == [9, 10, 11]
    assert recovery.latest == recovery.checkpoints[-1]
    assert recovery.state == state(11, a)
    assert recovery.skipped == []


def test_nothing_to_recover_is_a_fresh_start(a: StateHandleStore) -> None:
    recovery = CheckpointRegistry(a).recover()
    assert (recovery.latest, recovery.state, recovery.checkpoints, recovery.skipped) == (None, b"", [], [])


def test_what_is_added_goes_through_a_record_and_back(a: StateHandleStore, b: StateHandleStore) -> None:
    added = CheckpointRegistry(a).add(7, b"state", savepoint=True, labels={"batch": "41"})
    assert added.handle.labels["batch"] == "41"
    recovered = CheckpointRegistry(b).recover().latest
    assert recovered is not None
    assert (recovered.number, recovered.savepoint) == (7, True)
    assert recovered.handle.version == added.handle.version


def test_the_oldest_goes_only_after_the_new_one_is_there(a: StateHandleStore) -> None:
    """Checkpoints 5."""
    registry = CheckpointRegistry(a, retain=1)
    registry.add(1, b"1")
    a.add_and_lock(name_of(2), b"somebody else's")
    with pytest.raises(milepost.AlreadyExists):
        registry.add(2, b"2")
    assert [checkpoint.number for checkpoint in registry.checkpoints] == [1]
    assert a.read(name_of(1)) == b"1"


def test_a_job_that_ended_leaves_nothing_but_what_is_not_its_own(a: StateHandleStore) -> None:
    """Checkpoints 6."""
    a.add_and_lock("job", b"a record beside the checkpoints")
    registry = CheckpointRegistry(a, retain=3)
    for number in (1, 2, 3):
        registry.add(number, state(number, a))
    registry.shutdown(job_ended=True)
    assert numbers(a) == ["job"]
    assert registry.checkpoints == []


def test_a_suspended_job_leaves_all_of_them_unlocked_to_be_recovered(a: StateHandleStore, b: StateHandleStore) -> None:
    """Checkpoints 6."""
    registry = CheckpointRegistry(a, retain=3)
    before = [registry.add(number, state(number, a)) for number in (1, 2, 3)]
    registry.shutdown(job_ended=False)
    assert [handle.locks for handle in a.get_all_handles()] == [()] * 3
    recovery = CheckpointRegistry(b, retain=3).recover()
    assert [found.handle.version for found in recovery.checkpoints] == [kept.handle.version for kept in before]
    assert [handle.locks for handle in b.get_all_handles()] == [(b.session_id,)] * 3


def test_a_suspended_job_whose_session_is_gone_has_nothing_to_unlock(blocking: milepost.Client, name: str) -> None:
    session = blocking.session(holder="a")
    registry = CheckpointRegistry(session.store(name))
    registry.add(1, b"1")
    session.close()
    registry.shutdown(job_ended=False)
    assert registry.checkpoints == []
    assert [handle.locks for handle in blocking.store(name).get_all_handles()] == [()]


def test_what_another_driver_recovered_is_discarded_only_when_it_lets_go(
    a: StateHandleStore, b: StateHandleStore
) -> None:
    """Checkpoints 7 and Checkpoints 12."""
    registry = CheckpointRegistry(a, retain=1)
    registry.add(1, state(1, a))
    reader = CheckpointRegistry(b)
    assert reader.recover().state == state(1, a)
    registry.add(2, state(2, a))
    assert [checkpoint.number for checkpoint in registry.checkpoints] == [2]
    assert b.read(name_of(1)) == state(1, a)  # refused, so its data is there
    reader.shutdown(job_ended=False)
    assert numbers(a) == ["checkpoint-1", "checkpoint-2"]
    registry.add(3, state(3, a))
    assert numbers(a) == ["checkpoint-3"]


def test_three_recovered_and_a_fourth_added(a: StateHandleStore, b: StateHandleStore) -> None:
    """Checkpoints 8."""
    first = CheckpointRegistry(a, retain=3)
    for number in (1, 2, 3):
        first.add(number, state(number, a))
    first.shutdown(job_ended=False)
    second = CheckpointRegistry(b, retain=3)
    second.recover()
    assert numbers(b) == ["checkpoint-1", "checkpoint-2", "checkpoint-3"]
    second.add(4, state(4, b))
    assert numbers(b) == ["checkpoint-2", "checkpoint-3", "checkpoint-4"]


@pytest.mark.parametrize("job_ended", [True, False])
def test_nothing_is_added_or_recovered_after_a_shutdown(a: StateHandleStore, job_ended: bool) -> None:
    """Checkpoints 9."""
    registry = CheckpointRegistry(a)
    registry.shutdown(job_ended)
    with pytest.raises(milepost.Closed):
        registry.add(1, b"1")
    with pytest.raises(milepost.Closed):
        registry.recover()
    assert numbers(a) == []


def test_numbers_rise(a: StateHandleStore) -> None:
    registry = CheckpointRegistry(a, retain=2)
    registry.add(7, b"7")
    for number in (7, 6):
        with pytest.raises(ValueError, match="not newer than the latest, 7"):
            registry.add(number, b"again")
    with pytest.raises(ValueError, match="retain must be 1"):
        CheckpointRegistry(a, retain=0)


OUTAGES = [
    milepost.Unavailable(Code.STORAGE_UNAVAILABLE),
    milepost.DiscardFailed(Code.DISCARD_FAILED),
    milepost.OutcomeUnknown(Code.OUTCOME_UNKNOWN),
    milepost.ConnectionFailed("nobody there"),
]


@pytest.mark.parametrize("outage", OUTAGES)
def test_a_clean_up_that_fails_does_not_fail_the_checkpoint_and_is_made_good(
    a: StateHandleStore, outage: milepost.MilepostError, caplog: pytest.LogCaptureFixture
) -> None:
    store = Failing.around(a)
    registry = CheckpointRegistry(store, retain=1)
    registry.add(1, b"1")
    store.outage = outage
    assert registry.add(2, b"2").number == 2
    assert "could not be removed yet" in caplog.text
    assert numbers(a) == ["checkpoint-1", "checkpoint-2"]
    store.outage = None
    registry.add(3, b"3")
    assert numbers(a) == ["checkpoint-3"]


def test_new_checkpoints_wait_for_a_clean_up_that_lags_too_far_behind(a: StateHandleStore) -> None:
    """Checkpoints 10."""
    store = Failing.around(a)
    registry = CheckpointRegistry(store, retain=1, clean_up_limit=2)
    store.outage = OUTAGES[0]
    for number in (1, 2, 3, 4):
        registry.add(number, b"x")
    with pytest.raises(CleanUpLags, match="3 old checkpoints"):
        registry.add(5, b"x")
    assert len(numbers(a)) == 4
    store.outage = None
    registry.add(5, b"x")
    assert numbers(a) == ["checkpoint-5"]


def test_a_shutdown_that_meets_an_outage_can_be_repeated(a: StateHandleStore) -> None:
    store = Failing.around(a)
    registry = CheckpointRegistry(store, retain=2)
    registry.add(1, b"1")
    registry.add(2, b"2")
    store.outage = OUTAGES[0]
    with pytest.raises(CleanUpLags, match="checkpoint-0000000000000000001"):
        registry.shutdown(job_ended=True)
    store.outage = None
    registry.shutdown(job_ended=True)
    assert numbers(a) == []


def test_a_refusal_for_good_in_the_clean_up_is_reported(a: StateHandleStore) -> None:
    store = Failing.around(a)
    registry = CheckpointRegistry(store, retain=1)
    registry.add(1, b"1")
    store.outage = milepost.Fenced(Code.FENCED)
    with pytest.raises(milepost.Fenced):
        registry.add(2, b"2")
    assert registry.latest is not None
    assert registry.latest.number == 2


def test_what_was_added_anew_under_an_old_name_is_left_alone(a: StateHandleStore, b: StateHandleStore) -> None:
    registry = CheckpointRegistry(a, retain=1)
    registry.add(1, b"1")
    a.release_and_try_remove(name_of(1))
    b.add_and_lock(name_of(1), b"anew")
    registry.add(2, b"2")
    assert a.read(name_of(1)) == b"anew"


def test_an_unreadable_checkpoint_is_skipped_for_the_newest_intact_one(
    damage: Damage, a: StateHandleStore, b: StateHandleStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Checkpoints 11."""
    registry = CheckpointRegistry(a, retain=4)
    for number in (1, 2, 3, 4):
        registry.add(number, state(number, a))
    damage(state(3, a))
    damage(state(4, a))
    registry.shutdown(job_ended=False)
    second = CheckpointRegistry(b, retain=2)
    recovery = second.recover()
    assert recovery.latest is not None
    assert (recovery.latest.number, recovery.state) == (2, state(2, a))
    assert [skip.number for skip in recovery.skipped] == [4, 3]
    assert all(skip.reason for skip in recovery.skipped)
    assert [record.levelno for record in caplog.records if "damaged" in record.message] == [logging.WARNING] * 2
    assert b.get(name_of(4)).locks == ()
    # The damaged ones count for nothing: they neither evict the good ones nor stand in the way of their own number.
    assert [checkpoint.number for checkpoint in second.checkpoints] == [1, 2]
    second.add(3, b"3 once more")
    assert numbers(b) == ["checkpoint-2", "checkpoint-3", "checkpoint-4"]
    second.add(5, b"5")
    assert numbers(b) == ["checkpoint-3", "checkpoint-5"]
    assert b.read(name_of(3)) == b"3 once more"


def test_a_damaged_record_is_skipped_reported_and_gone_with_the_next_checkpoint(tmp_path: Path) -> None:
    with serving(tmp_path) as service, milepost.Client(service.url) as client, client.session(holder="a") as session:
        registry = CheckpointRegistry(session.store("flights"), retain=3)
        for number in (1, 2, 3):
            registry.add(number, b"state %d" % number)
        registry.shutdown(job_ended=False)
    with closing(sqlite3.connect(tmp_path / "pointers" / "pointers.db")) as database:
        key = f"stores/flights/handles/{name_of(3)}"
        assert database.execute("UPDATE record SET value = ? WHERE key = ?", (b"no record", key)).rowcount == 1
        database.commit()
    with serving(tmp_path) as service, milepost.Client(service.url) as client, client.session(holder="b") as session:
        store = session.store("flights")
        registry = CheckpointRegistry(store, retain=3)
        recovery = registry.recover()
        assert recovery.latest is not None
        assert (recovery.latest.number, recovery.state) == (2, b"state 2")
        assert [skip.number for skip in recovery.skipped] == [3]
        registry.add(3, b"state 3 once more")
        assert store.read(name_of(3)) == b"state 3 once more"
        assert CheckpointRegistry(store).recover().skipped == []


def test_a_damaged_one_goes_with_the_job(damage: Damage, a: StateHandleStore, b: StateHandleStore) -> None:
    CheckpointRegistry(a).add(1, state(1, a))
    damage(state(1, a))
    a.release_all()
    registry = CheckpointRegistry(b)
    recovery = registry.recover(start_over=True)
    assert (recovery.latest, recovery.state, [skip.number for skip in recovery.skipped]) == (None, b"", [1])
    registry.shutdown(job_ended=True)
    assert numbers(b) == []


def test_nothing_but_damage_is_no_fresh_start(damage: Damage, a: StateHandleStore, b: StateHandleStore) -> None:
    registry = CheckpointRegistry(a, retain=2)
    for number in (1, 2):
        registry.add(number, state(number, a))
        damage(state(number, a))
    with pytest.raises(NoIntactCheckpoint, match=r"checkpoint 2: .*; checkpoint 1: "):
        CheckpointRegistry(b).recover()
    assert numbers(b) == ["checkpoint-1", "checkpoint-2"]


@pytest.mark.parametrize("limit", [10, 0])
def test_what_was_recovered_is_not_removed_though_it_was_to_be(damage: Damage, a: StateHandleStore, limit: int) -> None:
    """Its removal was prevented by an outage, and then the newer ones turned out to be damaged."""
    store = Failing.around(a)
    registry = CheckpointRegistry(store, retain=2, clean_up_limit=limit)
    registry.add(1, state(1, a))
    registry.add(2, state(2, a))
    store.outage = OUTAGES[0]
    registry.add(3, state(3, a))
    store.outage = None
    damage(state(2, a))
    damage(state(3, a))
    recovery = registry.recover()
    assert (recovery.state, [skip.number for skip in recovery.skipped]) == (state(1, a), [3, 2])
    registry.add(4, b"4")
    assert [checkpoint.number for checkpoint in registry.checkpoints] == [1, 4]
    assert a.read(name_of(1)) == state(1, a)
    registry.add(5, b"5")
    assert numbers(a) == ["checkpoint-4", "checkpoint-5"]


def test_recovery_leaves_other_handles_and_their_locks_as_they_were(a: StateHandleStore, b: StateHandleStore) -> None:
    a.add_and_lock("theirs", b"1")
    b.add_and_lock("mine", b"2")
    CheckpointRegistry(a).add(1, b"state")
    CheckpointRegistry(b).recover()
    locks = {handle.name: set(handle.locks) for handle in b.get_all_handles()}
    assert locks == {
        "theirs": {a.session_id},
        "mine": {b.session_id},
        name_of(1): {a.session_id, b.session_id},
    }


def test_an_outage_is_no_damage(a: StateHandleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outage is made up, since the service would have to vanish in the middle of one answer."""

    def fail(*_: Any, **__: Any) -> bytes:
        raise milepost.StateTruncated("3 of 10 bytes came") from milepost.Unavailable(Code.NO_LEADER)

    CheckpointRegistry(a).add(1, b"state")
    monkeypatch.setattr(a, "read", fail)
    with pytest.raises(milepost.StateTruncated):
        CheckpointRegistry(a).recover()


def test_an_add_whose_answer_was_lost_is_found_if_it_landed(a: StateHandleStore) -> None:
    registry = CheckpointRegistry(Doubtful.around(a, is_committed=True), retain=1)
    assert registry.add(1, b"1").handle == a.get(name_of(1))
    registry.add(2, b"2")
    assert numbers(a) == ["checkpoint-2"]


def test_an_add_whose_answer_was_lost_stays_unknown_if_it_is_not_there(a: StateHandleStore) -> None:
    registry = CheckpointRegistry(Doubtful.around(a, is_committed=False), retain=1)
    with pytest.raises(milepost.OutcomeUnknown):
        registry.add(1, b"1")
    assert registry.checkpoints == []


def test_a_savepoint_that_was_added_as_none_is_told(a: StateHandleStore) -> None:
    registry = CheckpointRegistry(Doubtful.around(a, is_committed=True, labels=False))
    with pytest.raises(milepost.LabelsLost, match="milepost-savepoint") as raised:
        registry.add(1, b"1", savepoint=True)
    assert raised.value.handle == a.get(name_of(1))


def test_a_handle_that_was_there_before_is_not_taken_for_ones_own_add(a: StateHandleStore) -> None:
    a.add_and_lock(name_of(1), b"of an earlier run")
    with pytest.raises(milepost.OutcomeUnknown):
        CheckpointRegistry(Doubtful.around(a, is_committed=False)).add(1, b"1")
