"""The record of loaded state stores, in both flavours, over the real service."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost import ExecutorLocation, StateInstance
from tests.client.conftest import eventually, serving
from tests.client.flavours import connected

RUN = "run-1"
HERE, THERE = ExecutorLocation("host-1", "1"), ExecutorLocation("host-2", "2")


def some(*partitions: int) -> list[StateInstance]:
    return [StateInstance(RUN, 0, partition) for partition in partitions]


@pytest.fixture
def record(client: Any, name: str) -> Any:
    return client.store(name).instances


def test_a_report_moves_an_instance(record: Any) -> None:
    assert record.report(HERE, some(0, 1)).unload == ()
    assert record.report(THERE, some(1)).unload == ()
    assert record.report(HERE, some(2), some(0, 1)).unload == (*some(1),)
    found = record.locations(some(0, 1, 2, 3))
    assert {one.partition: loaded.location for one, loaded in found.items()} == {0: HERE, 1: THERE, 2: HERE}


def test_a_verification_says_what_is_still_ones_own(record: Any) -> None:
    reported = record.report(HERE, some(0, 1))
    record.report(THERE, some(1))
    verified = record.verify(HERE, some(0, 1, 2), record=reported.record)
    assert (verified.record, verified.active) == (reported.record, (*some(0),))
    assert record.verify(HERE, some(0, 1, 2)).active == (*some(0, 2),)  # it was told of no record yet


def test_more_than_a_request_takes_goes_in_several(record: Any) -> None:
    assert record.report(HERE, some(*range(250)), some(*range(300, 430))).unload == ()
    assert record.report(THERE, some(7, 207), some(*range(250))).unload == tuple(
        one for one in some(*range(250)) if one.partition not in (7, 207)
    )
    assert len(record.verify(HERE, some(*range(250))).active) == 248
    assert len(record.locations(some(*range(250)))) == 250
    assert [one.instance for one in record.all()] == some(*range(250))
    assert record.deactivate(some(*range(150))) == 150
    assert record.report(HERE, [], []).unload == ()
    assert record.locations([]) == {}


@pytest.mark.parametrize("loaded", [1, 20, 21, 100])
def test_the_longest_names_are_not_too_long_for_a_request(record: Any, loaded: int) -> None:
    long = [StateInstance("r" * 200, 2**63 - 1, 2**63 - 1 - number, "n" * 200) for number in range(200)]
    there = ExecutorLocation("h" * 255, "e" * 200)
    record.report(THERE, long[100:])
    assert record.report(there, long[:loaded], long[100:]).unload == tuple(long[100:])
    assert len(record.verify(there, long).active) == 100
    record.snapshots_made(dict.fromkeys(long, 2**63 - 1))
    assert len(record.locations(long)) == 200  # what nobody had was claimed by the verification


def test_snapshots_and_what_lags(record: Any) -> None:
    record.report(HERE, some(0, 1, 2))
    record.snapshots_made({one: 100 - 40 * one.partition for one in some(0, 1)})
    lagging = record.lagging(RUN, 101, versions=10, most=1)
    assert lagging.count == 2
    assert [(one.instance.partition, one.snapshot) for one in lagging.most] == [(2, None)]
    assert record.lagging(RUN, 101, versions=10, age=3600.0).count == 0


def test_deactivation_is_narrowed_by_what_is_given(record: Any) -> None:
    record.report(HERE, some(0, 1))
    record.report(THERE, [*some(2), StateInstance("run-2", 0, 2)])
    assert record.deactivate(run="run-2", executor="1") == 0
    assert record.deactivate(run="run-2") == 1
    assert record.deactivate(executor="1") == 2
    assert record.deactivate() == 1


def test_only_the_current_epoch_reports(client: Any, name: str) -> None:
    with client.session() as session:
        store = session.store(name)
        store.campaign()
        executor = client.store(name).under(store.epoch).instances
        executor.report(HERE, some(0))
        for wrong in (client.store(name).instances, client.store(name).under(store.epoch + 1).instances):
            with pytest.raises(milepost.Fenced):
                wrong.report(HERE, some(0))
            with pytest.raises(milepost.Fenced):
                wrong.verify(HERE, some(0))
            with pytest.raises(milepost.Fenced):
                wrong.snapshots_made({some(0)[0]: 1})
            with pytest.raises(milepost.Fenced):
                wrong.deactivate()
        assert len(executor.locations(some(0))) == 1


def test_what_cannot_be_right_is_not_sent(record: Any) -> None:
    with pytest.raises(milepost.InvalidRequest):
        record.report(ExecutorLocation("a b", "1"), [])
    with pytest.raises(milepost.InvalidName):
        record.report(ExecutorLocation("host", "a/b"), [])
    with pytest.raises(milepost.InvalidName):
        record.report(HERE, [StateInstance("", 0, 0)])


def test_a_change_of_leader_forgets_and_the_next_verification_fills_it_again(
    flavour: str, name: str, tmp_path: Path
) -> None:
    with serving(tmp_path) as first:
        with connected(flavour, first.url, timeout=30.0) as client:
            before = client.store(name).instances.report(HERE, some(0, 1)).record
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait(20)
    with serving(tmp_path) as second, connected(flavour, second.url, timeout=30.0) as client:
        record = client.store(name).instances
        assert record.locations(some(0, 1)) == {}
        record.report(THERE, some(1))
        verified = record.verify(HERE, some(0, 1), record=before)
        assert verified.active == (*some(0),)
        assert verified.record != before
        eventually(lambda: len(record.locations(some(0, 1))) == 2)
