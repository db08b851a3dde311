"""Worlds in which most bytes are put by the clients themselves. See `tests.simulation.guards.scenes`."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.guards.scenes import calm
from tests.simulation.plan import Plan, Weather
from tests.simulation.world.network import Faults


def busy(seed: int) -> Plan:
    """Nothing goes wrong but for what clients do themselves; uploads have little time."""
    plan = calm(seed)
    return replace(
        plan,
        uploads=150,
        handles=4,
        removals=0.5,
        settings=replace(plan.settings, upload_seconds=1.5, collect_interval_seconds=0.2),
    )


def slow(seed: int) -> Plan:
    """The same, and commits take their time."""
    return replace(busy(seed), pointers=Faults(latency=0.15))


def under_dying_leaders(seed: int) -> Plan:
    """The same as `busy`, leaders die, and clients are slow to use what they have put."""
    plan = busy(seed)
    return replace(
        plan,
        pace=0.05,
        settings=replace(plan.settings, upload_seconds=6.0),
        weather=Weather(interval=1.0, pause=0.0, kill=1.0, stop=0.0, cut=0.0, outage=0.0, long=1.0),
    )
