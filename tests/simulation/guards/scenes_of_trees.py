"""Worlds in which drivers write the tree of one job. See `tests.simulation.guards.scenes`."""

from __future__ import annotations

from dataclasses import replace

from milepost_backends.contract import GroupLimits
from tests.simulation.guards.scenes import calm
from tests.simulation.plan import Plan, Weather
from tests.simulation.world.network import Faults


def busy(seed: int) -> Plan:
    """Nothing goes wrong but for what drivers do themselves. Each request is a group of its own."""
    plan = calm(seed)
    return replace(
        plan,
        requests=600,
        clients=0,
        drivers=3,
        pace=0.05,
        ttl=6.0,
        timeout=2.0,
        limits=GroupLimits(requests=1, in_flight=4),
        settings=replace(plan.settings, inline_below=30, compact_from=4, compact_after_seconds=8.0),
    )


def slow(seed: int) -> Plan:
    """The same, and commits take their time, so much happens while they are on their way."""
    plan = busy(seed)
    journal = replace(plan.settings.journal, commit_seconds=2.0)
    return replace(
        plan, pointers=Faults(latency=0.1), pace=0.01, ttl=3.0, settings=replace(plan.settings, journal=journal)
    )


def slow_bytes(seed: int) -> Plan:
    """The same as `busy`, and bytes take their time: what is put is published long after it was begun."""
    return replace(busy(seed), blobs=Faults(latency=0.005, slow=0.4, latest=2.0), timeout=6.0, ttl=3.0)


def under_dying_leaders(seed: int) -> Plan:
    """The same as `busy`, leaders die, answers get lost, and clients ask again."""
    return replace(
        busy(seed),
        network=Faults(lost=0.02, deaf=0.08, latency=0.001),
        timeout=0.5,
        weather=Weather(interval=4.0, pause=0.0, kill=1.0, stop=0.0, cut=0.0, outage=0.0, long=1.0),
    )


def compacted(seed: int) -> Plan:
    """The same as `busy`, with time between the batches: most of what drivers delete has been compacted by then."""
    plan = busy(seed)
    settings = replace(plan.settings, compact_from=2, maintenance_interval_seconds=0.3)
    return replace(plan, pace=0.5, ttl=40.0, settings=settings)


def compacting(seed: int) -> Plan:
    """The same as `compacted`, and bytes take their time: a manifest is being made nearly always, of young files too.

    A driver deletes some of these meanwhile. Of older ones it would delete few, and one episode of thirty showed it.
    """
    plan = compacted(seed)
    settings = replace(plan.settings, compact_after_seconds=2.0)
    return replace(plan, settings=settings, blobs=Faults(latency=2.0), timeout=20.0)


def impatient(seed: int) -> Plan:
    """Bytes take more time than clients have, who send them again."""
    return replace(busy(seed), blobs=Faults(latency=0.005, slow=0.6, latest=3.0), timeout=0.5)
