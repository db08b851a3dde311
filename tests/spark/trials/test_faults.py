"""What is drawn is the same for the same seed, and as many-sided as is said."""

from __future__ import annotations

import random
from collections import Counter

from tests.spark.trials.faults import FULL, LEADER, ON_DRIVERS, RESTART, SERVER, STANDBY, rounds


def test_the_same_seed_draws_the_same() -> None:
    assert rounds(20, random.Random("7")) == rounds(20, random.Random("7"))
    assert rounds(20, random.Random("7")) != rounds(20, random.Random("8"))


def test_the_full_size_meets_every_fault_and_several_at_once() -> None:
    for seed in range(20):
        drawn = rounds(FULL, random.Random(str(seed)))
        faults = [fault for round_ in drawn for blow in round_.blows for fault in blow.faults]
        assert len(faults) >= 150
        assert {fault.how for fault in faults} == {*ON_DRIVERS, RESTART}
        assert sum(len(blow.faults) > 1 for round_ in drawn for blow in round_.blows) >= FULL // 4


def test_somebody_who_can_go_on_is_always_left() -> None:
    for round_ in rounds(500, random.Random("1")):
        assert round_.standbys in (1, 2)
        for blow in round_.blows:
            hit = Counter(fault.whom for fault in blow.faults)
            assert set(hit) <= {LEADER, STANDBY, SERVER}
            assert max(hit.values()) == 1
            assert STANDBY not in hit or round_.standbys == 2
