"""What is drawn is the same for the same seed, and 300 rounds are as many-sided as is said."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from tests.spark.trials.plan import (
    ADDRESSES,
    FREEZE,
    HOWS,
    JVM,
    KINDS,
    LEAD,
    ON_DRIVERS,
    ON_EXECUTORS,
    ON_SERVICE,
    PROVIDERS,
    ROUNDS,
    RUN,
    SOURCES,
    STANDBY,
    plan,
)


def test_the_same_seed_draws_the_same() -> None:
    assert plan(7) == plan(7)
    assert plan(7) != plan(7 + len(KINDS) * 2)


@pytest.mark.parametrize("first", [1, 1000, 12_345])
def test_sixty_runs_are_three_hundred_rounds_of_every_kind(first: int) -> None:
    plans = [plan(first + number) for number in range(60)]
    assert sum(len(each.rounds) for each in plans) == 60 * ROUNDS == 300
    assert sum(each.executors == 2 for each in plans) >= 30
    assert {(each.kind, each.source) for each in plans} == set(product(KINDS, SOURCES))
    wanted = set(product(KINDS, PROVIDERS)) - {("transform", "hdfs")}
    assert {(each.kind, each.provider) for each in plans} == wanted
    assert Counter(each.way for each in plans)[RUN] >= 6
    assert Counter(each.way for each in plans)[LEAD] >= 30
    assert sum(each.replicas == 3 for each in plans) >= 10
    assert {(each.way, each.address) for each in plans} == set(product((LEAD, RUN), ADDRESSES))
    assert min(Counter(each.address for each in plans).values()) >= 12
    met = Counter((each.how, each.whom) for one in plans for each in one.rounds)
    assert set(met) == set(product(HOWS, (*ON_DRIVERS, STANDBY, *ON_EXECUTORS, *ON_SERVICE)))
    assert sum(each.outage > 0 for one in plans for each in one.rounds) >= 15


def test_faults_fit_the_run() -> None:
    for each in map(plan, range(1, 200)):
        for found in each.rounds:
            assert each.executors or found.whom not in ON_EXECUTORS
            assert each.replicas > 1 or found.whom != "replica"
            brief = found.how == FREEZE and (found.whom == STANDBY or (each.way, found.whom) == (RUN, JVM))
            assert (found.seconds > 0) == (brief or found.whom in ON_SERVICE)
            assert not found.outage or found.whom in (*ON_DRIVERS, STANDBY)
