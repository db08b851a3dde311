"""What an episode is like. Drawn from its seed, so that every kind of world and of weather is met."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random

from milepost_backends.contract import GroupLimits
from milepost_server.journal import JournalSettings
from milepost_server.replica.settings import Settings
from tests.simulation.world.elections import Terms
from tests.simulation.world.network import Faults


@dataclass(frozen=True, slots=True)
class Weather:
    """How often something befalls the world (mean ``interval`` in seconds), and what, by weight.

    What lasts is ``short`` or ``long``, in seconds. ``lines``: which connections may be cut.
    """

    interval: float
    pause: float = 3.0
    kill: float = 1.0
    stop: float = 0.5
    cut: float = 1.0
    outage: float = 1.0
    short: float = 0.3
    long: float = 20.0
    lines: tuple[str, ...] = ("pointers", "election", "blobs")


@dataclass(frozen=True, slots=True)
class CellsPlan:
    """What is more in a world of two cells. Times in seconds.

    ``jobs``, ``drivers``, ``movers``, ``people``: how many there are. ``pause``: mean time between two lives of one of
    these. ``interval``: mean time between two things that befall a program or a cell as a whole. ``doubled``: how often
    a request arrives twice. ``old_lists``: how often a program has another list of cells than the newest. ``grows``:
    the second cell is added after so many seconds; None if it is there from the start.
    """

    jobs: int = 2
    drivers: int = 3
    movers: int = 2
    people: int = 1
    pause: float = 3.0
    interval: float = 20.0
    doubled: float = 0.0
    old_lists: float = 0.0
    grows: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is fixed before an episode begins. Times in seconds.

    ``pace``: mean time between two calls of a client. ``timeout``: how long a client waits for an answer at most.
    ``removals``: how often a client that holds a handle removes rather than replaces it. ``kept_keys``: how many
    answers a record keeps. ``uploads``: how many acts of a hundred are about uploads.
    ``drivers``: how many want to lead a job, and write its tree. ``cells``: the world is one of two cells, each with
    what the rest says, and has no other clients than those of ``cells``.
    """

    seed: int
    requests: int
    replicas: int
    clients: int
    stores: int
    handles: int
    removals: float
    pace: float
    timeout: float
    ttl: float
    kept_keys: int
    limits: GroupLimits
    settings: Settings
    election: Terms
    pointers: Faults
    blobs: Faults
    network: Faults
    weather: Weather
    uploads: int = 0
    drivers: int = 0
    cells: CellsPlan | None = None


def draw_cells(seed: int, requests: int) -> Plan:
    """The plan of the episode of two cells with this seed."""
    plan, random = draw(seed, requests), Random(f"cells {seed}")
    latest = random.choice((2.0, 20.0, 90.0))
    return replace(
        plan,
        ttl=random.uniform(4.0, 20.0),
        timeout=random.choice((5.0, 15.0, 30.0)),
        pace=random.choice((0.01, 0.1, 0.5)),
        settings=replace(plan.settings, compact_from=10_000),  # moves are seen in the records of paths
        network=Faults(lost=_rate(random), late=_rate(random), deaf=_rate(random), slow=_rate(random), latest=latest),
        cells=CellsPlan(
            jobs=random.choice((1, 2, 4)),
            drivers=random.randint(1, 4),
            movers=random.choice((1, 2, 3)),
            people=random.choice((0, 1, 2)),
            pause=random.choice((0.5, 3.0, 15.0)),
            interval=random.choice((2.0, 8.0, 40.0)),
            doubled=_rate(random) * 3,
            old_lists=random.choice((0.0, 0.0, 0.1, 0.3)),
            grows=random.uniform(1.0, 60.0) if random.random() < 0.4 else None,
        ),
    )


def draw(seed: int, requests: int) -> Plan:
    """The plan of the episode with this seed."""
    random = Random(f"plan {seed}")
    slow = random.choice((1.0, 1.0, 1.0, 1.0, 8.0, 100.0))
    kept = random.choice((64, 12, 12, 3))
    locked = random.random() < 0.25
    lease = random.uniform(2.0, 8.0)
    return Plan(
        seed=seed,
        requests=requests,
        replicas=random.choice((2, 3)),
        clients=random.randint(3, 8),
        stores=random.choice((1, 2)),
        handles=random.randint(1, 5),
        removals=random.choice((0.1, 0.1, 0.5)),
        pace=random.choice((0.01, 0.05, 0.2)) * slow,
        timeout=random.choice((1.0, 5.0, 10.0)),
        ttl=random.uniform(2.0, 12.0) * (slow if slow < 10 else 30.0),
        kept_keys=kept,
        limits=GroupLimits(requests=min(kept, random.choice((4, 64))), in_flight=random.randint(1, 4)),
        settings=_settings(random, slow),
        election=Terms(
            lease=math.inf if locked else lease * min(slow, 10.0),
            poll=random.uniform(0.1, 1.0) * slow,
            prompt=random.random() < 0.5,
        ),
        pointers=Faults(
            lost=_rate(random),
            late=_rate(random),
            deaf=_rate(random),
            slow=_rate(random),
            failing=_rate(random),
            latency=random.choice((0.001, 0.004, 0.02)),
            latest=random.choice((0.5, 5.0, 60.0)),
        ),
        blobs=Faults(
            lost=_rate(random),
            late=_rate(random),
            deaf=_rate(random),
            slow=_rate(random),
            failing=_rate(random) * 4,
            latency=random.choice((0.001, 0.01, 0.1)),
            latest=random.choice((1.0, 30.0)),
        ),
        network=Faults(lost=_rate(random), deaf=_rate(random), latency=random.choice((0.0005, 0.005))),
        weather=Weather(
            interval=random.choice((0.3, 1.0, 4.0, 15.0)) * min(slow, 20.0),
            long=random.choice((1.0, 3.0, 20.0, 120.0)),
            pause=random.choice((1.0, 4.0)),
            kill=random.choice((0.1, 1.0)),
            cut=random.choice((0.5, 3.0)),
            outage=random.choice((0.1, 1.0)),
        ),
        uploads=random.choice((0, 20, 40)),
        drivers=random.choice((0, 0, 2, 3)),
    )


def _rate(random: Random) -> float:
    """How often one kind of fault happens: not at all, or seldom, or all the time."""
    return random.choice((0.0, 0.0003, 0.002, 0.01, 0.04)) * random.random()


def _settings(random: Random, slow: float) -> Settings:
    return Settings(
        request_seconds=random.choice((2.0, 20.0)),
        linger_seconds=random.choice((0.5, 60.0)),
        collect_after_seconds=random.choice((0.0, 5.0, 600.0)),
        collect_interval_seconds=random.choice((2.0, 30.0)) * slow,
        expire_interval_seconds=0.25 * min(slow, 10.0),
        maintenance_interval_seconds=random.choice((1.0, 30.0)) * min(slow, 10.0),
        deletion_interval_seconds=1.0 * slow,
        resign_seconds=random.choice((0.5, 10.0)),
        upload_seconds=random.choice((2.0, 20.0, 900.0)) * min(slow, 10.0),
        download_seconds=30.0,
        journal=JournalSettings(
            commit_seconds=random.choice((0.5, 2.0, 10.0)),
            take_over_seconds=random.choice((2.0, 30.0)),
            most_waiting=random.choice((4, 10_000)),
            most_uploads=random.choice((5, 1000, 1000)),
        ),
        inline_below=30,
        compact_from=random.choice((4, 20)),
        compact_after_seconds=random.choice((10.0, 60.0)) * min(slow, 10.0),
    )
