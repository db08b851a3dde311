"""Worlds in which one kind of trouble is frequent, for looking at one thing closely. Episodes in them are short."""

from __future__ import annotations

from dataclasses import replace

from milepost_backends.contract import GroupLimits
from milepost_server.journal import JournalSettings
from milepost_server.replica.settings import Settings
from tests.simulation.plan import Plan, Weather
from tests.simulation.world.elections import Terms
from tests.simulation.world.network import Faults

_NEVER = 1e9


def calm(seed: int) -> Plan:
    """Nothing goes wrong; a few clients are busy with two handles."""
    return Plan(
        seed=seed,
        requests=400,
        replicas=2,
        clients=6,
        stores=1,
        handles=2,
        removals=0.15,
        pace=0.01,
        timeout=1.0,
        ttl=3.0,
        kept_keys=64,
        limits=GroupLimits(requests=64, in_flight=4),
        settings=Settings(
            request_seconds=2.0,
            linger_seconds=0.5,
            collect_after_seconds=0.0,
            collect_interval_seconds=0.5,
            expire_interval_seconds=0.1,
            maintenance_interval_seconds=1.0,
            deletion_interval_seconds=0.2,
            resign_seconds=0.5,
            inline_below=0,
            journal=JournalSettings(commit_seconds=0.5, take_over_seconds=2.0),
        ),
        election=Terms(lease=1.5, poll=0.1, prompt=False),
        pointers=Faults(latency=0.005),
        blobs=Faults(latency=0.002),
        network=Faults(latency=0.001),
        weather=Weather(interval=_NEVER),
    )


def deaf_network(seed: int) -> Plan:
    """Answers get lost on their way to the clients, and records keep few of them."""
    return replace(calm(seed), network=Faults(lost=0.05, deaf=0.15, latency=0.001), timeout=0.3)


def forgetful(seed: int) -> Plan:
    """The same, and records keep few answers."""
    return replace(deaf_network(seed), kept_keys=3, limits=GroupLimits(requests=3, in_flight=4))


def slow_store(seed: int) -> Plan:
    """Commits take their time, so much happens while they are on their way."""
    return replace(calm(seed), pointers=Faults(latency=0.15), ttl=1.5)


_HICCUPS = Weather(
    interval=0.2, pause=0.0, kill=0.0, stop=0.0, cut=1.0, outage=0.0, short=0.05, long=0.3, lines=("pointers",)
)


def held_requests(seed: int) -> Plan:
    """Short cuts between the leader and the coordination store; what was sent into them arrives soon after, or never.

    Each request is a group of its own.
    """
    return replace(
        calm(seed),
        clients=10,
        handles=4,
        limits=GroupLimits(requests=1, in_flight=4),
        pointers=Faults(latency=0.02, latest=0.3),
        settings=replace(calm(seed).settings, journal=JournalSettings(commit_seconds=0.15, take_over_seconds=1.0)),
        weather=_HICCUPS,
    )


def held_groups(seed: int) -> Plan:
    """The same, with large groups."""
    return replace(held_requests(seed), limits=GroupLimits(requests=64, in_flight=4))


def lost_answers(seed: int) -> Plan:
    """The coordination store's answers get lost."""
    return replace(calm(seed), pointers=Faults(latency=0.005, deaf=0.05, late=0.02, latest=1.0))


def deaf_leaders(seed: int) -> Plan:
    """Leaders are cut off from the election for longer than their lease lasts, and nobody tells them: often no refused
    commit either.
    """
    return replace(
        calm(seed),
        weather=Weather(
            interval=1.0, pause=0.0, kill=0.0, stop=0.0, cut=1.0, outage=0.0, long=12.0, lines=("election", "pointers")
        ),
    )


def dying_leaders(seed: int) -> Plan:
    """Leaders die all the time."""
    return replace(
        calm(seed), weather=Weather(interval=1.0, pause=0.0, kill=1.0, stop=0.0, cut=0.0, outage=0.0, long=1.0)
    )


def slow_bytes(seed: int) -> Plan:
    """Bytes take their time, and clients have it."""
    return replace(calm(seed), blobs=Faults(latency=0.005, slow=0.4, latest=2.0), timeout=6.0)


def impatient(seed: int) -> Plan:
    """Bytes take more time than clients have, and the one handle comes and goes."""
    return replace(calm(seed), handles=1, removals=0.9, timeout=0.1, blobs=Faults(latency=0.005, slow=0.4, latest=1.5))


def away_bytes(seed: int) -> Plan:
    """The blob store fails more often than not, and handles come and go."""
    return replace(calm(seed), removals=0.9, blobs=Faults(latency=0.002, failing=0.5))


def cut_off_removals(seed: int) -> Plan:
    """The same, leaders die, and there are so many handles that nobody comes back to each."""
    return replace(away_bytes(seed), handles=40, weather=dying_leaders(seed).weather)


def lonely_leader(seed: int) -> Plan:
    """One replica that pauses and so loses its leadership while bytes are on their way, and that collects at once."""
    return replace(
        calm(seed),
        replicas=1,
        blobs=Faults(latency=0.005, slow=0.5, latest=4.0),
        election=Terms(lease=0.3, poll=0.02, prompt=True),
        timeout=6.0,
        settings=replace(calm(seed).settings, request_seconds=10.0, collect_interval_seconds=0.05),
        weather=Weather(interval=1.5, pause=1.0, kill=0.0, stop=0.0, cut=0.0, outage=0.0, short=0.5, long=1.5),
    )


def slow_take_overs(seed: int) -> Plan:
    """Answers of the coordination store get lost, take-overs may last longer than a lease, and clients are patient."""
    return replace(
        calm(seed),
        timeout=20.0,
        ttl=60.0,
        pointers=Faults(latency=0.005, deaf=0.1, slow=0.1, latest=6.0),
        settings=replace(
            calm(seed).settings,
            request_seconds=20.0,
            journal=JournalSettings(commit_seconds=0.3, take_over_seconds=30.0),
        ),
        weather=Weather(
            interval=3.0, pause=0.0, kill=0.0, stop=0.0, cut=1.0, outage=0.0, short=1.0, long=12.0, lines=("election",)
        ),
    )
