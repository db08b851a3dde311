"""Worlds of two cells in which jobs are moved to and fro. See `tests.simulation.guards.scenes`."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.guards.scenes import calm
from tests.simulation.plan import CellsPlan, Plan, Weather
from tests.simulation.world.network import Faults


def busy(seed: int) -> Plan:
    """One job, two movers and a person; nothing goes wrong but for what they do to each other."""
    plan = calm(seed)
    return replace(
        plan,
        requests=500,
        pace=0.05,
        ttl=8.0,
        timeout=10.0,
        settings=replace(plan.settings, compact_from=10_000),
        cells=CellsPlan(jobs=1, drivers=2, movers=2, people=1, pause=1.0, interval=1e9),
    )


def delayed(seed: int) -> Plan:
    """Requests arrive twice, and some come very late."""
    plan = busy(seed)
    assert plan.cells is not None
    return replace(
        plan,
        network=Faults(latency=0.002, late=0.02, latest=15.0),
        cells=replace(plan.cells, drivers=1, movers=3, people=0, doubled=0.3, pause=0.3),
    )


def growing(seed: int) -> Plan:
    """The second cell is added soon, and the first is away at times."""
    plan = busy(seed)
    assert plan.cells is not None
    return replace(
        plan,
        requests=300,
        timeout=30.0,
        weather=Weather(interval=1e9, short=10.0, long=10.0),
        cells=replace(plan.cells, jobs=4, drivers=4, movers=0, people=0, pause=0.5, interval=3.0, grows=6.0),
    )


def contested(seed: int) -> Plan:
    """The same, and movers take their time between the steps, pause and die."""
    plan = delayed(seed)
    assert plan.cells is not None
    return replace(
        plan,
        pace=2.0,
        ttl=4.0,
        weather=replace(plan.weather, short=5.0, long=5.0),
        network=Faults(latency=0.002, latest=15.0),
        cells=replace(plan.cells, doubled=0.6, pause=0.2, interval=2.0),
    )
