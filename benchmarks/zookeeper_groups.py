"""How large a group is best for ZooKeeper, and how many are best on their way at once.

    python -m benchmarks.zookeeper_groups [--seconds 2] [--rounds 3]

An ensemble of three on this machine. Each request replaces one record of 1 KiB, as a driver's checkpoint does. Each
figure is the median of the rounds: requests per second as a multiple of one at a time, and how long a group takes.

The last line tells what the witness costs that each group writes: the median of the ratios of two short measurements
in a row, with it and without.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

from milepost_backends.contract import Change, Done, GroupLimits, Head
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.pointers import group as zookeeper_group
from milepost_backends.zookeeper.pointers import store as zookeeper
from milepost_backends.zookeeper.pointers.group import Transaction, Znodes
from milepost_backends.zookeeper.pointers.layout import ZnodeLayout
from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers
from testbed.zookeeper import ensemble

VALUE = b"x" * 1024
RECORDS = 4096
SIZES = (1, 16, 64, 256)
IN_FLIGHT = (1, 2, 4, 8)
PAIRS = 40
PAIR_SECONDS = 0.25


@dataclass(frozen=True)
class Figure:
    """Requests per second, and seconds from handing a group over to its end."""

    rate: float
    latency: float


@dataclass(frozen=True)
class Ratio:
    """Of two figures."""

    rate: float
    latency: float


async def measure(
    store: ZooKeeperPointers, head: Head, size: int, in_flight: int, seconds: float
) -> tuple[Figure, Head]:
    """Keep so many groups of so many requests on their way; the head afterwards too."""
    done = 0
    latencies: list[float] = []
    begun = time.monotonic()

    async def commit(under: Head, changes: list[Change]) -> None:
        nonlocal done
        sent = time.monotonic()
        end = await store.commit(under, changes, under.revision + size)
        if not isinstance(end, Done):
            raise TypeError(f"a group was not committed: {end}")
        done += size
        latencies.append(time.monotonic() - sent)

    flight: set[asyncio.Task[None]] = set()
    number = 0
    while time.monotonic() < begun + seconds:
        keys = [f"stores/flights/handles/h{(number * size + each) % RECORDS}" for each in range(size)]
        flight.add(asyncio.create_task(commit(head, [Change(key, VALUE) for key in keys])))
        head = replace(head, revision=head.revision + size)
        number += 1
        if len(flight) >= in_flight:
            committed, flight = await asyncio.wait(flight, return_when=asyncio.FIRST_COMPLETED)
            for task in committed:
                task.result()
    await asyncio.gather(*flight)
    return Figure(done / (time.monotonic() - begun), statistics.median(latencies)), head


async def filled(store: ZooKeeperPointers) -> Head:
    """A journal that holds the records; its head, with the store knowing all znodes."""
    head = await store.take_over("root")
    for begin in range(0, RECORDS, 256):
        changes = [Change(f"stores/flights/handles/h{number}", VALUE) for number in range(begin, begin + 256)]
        end = await store.commit(head, changes, head.revision + 1)
        if not isinstance(end, Done):
            raise TypeError(f"a group was not committed: {end}")
        head = end.head
    return await known(store)


async def known(store: ZooKeeperPointers) -> Head:
    """Take over and load, as a leader does."""
    head = await store.take_over("root")
    async for _ in store.load(head):
        pass
    return head


async def run(hosts: str, seconds: float, rounds: int) -> dict[tuple[int, int], Figure]:
    """The medians over the rounds."""
    limits = GroupLimits(requests=max(SIZES), in_flight=max(IN_FLIGHT))
    store = ZooKeeperPointers(ZooKeeperAddress(hosts), limits=limits)
    await store.open()
    await filled(store)
    found: dict[tuple[int, int], list[Figure]] = {}
    for _ in range(rounds):
        for size in SIZES:
            for in_flight in IN_FLIGHT:
                figure, _ = await measure(store, await known(store), size, in_flight, seconds)
                found.setdefault((size, in_flight), []).append(figure)
    await store.close()
    return {key: median(figures) for key, figures in found.items()}


def unwitnessed(layout: ZnodeLayout, changes: Sequence[Change], znodes: Znodes, after: Head) -> Transaction:
    """A group without a witness of its head."""
    transaction = zookeeper_group.build(layout, changes, znodes, after)
    transaction.set.pop(layout.witness, None)
    return transaction


async def compare(hosts: str) -> dict[int, Ratio]:
    """What a group with its witness is to one without, for each size, with as many on their way as a leader sends."""
    store = ZooKeeperPointers(
        ZooKeeperAddress(hosts, root="/compared"), limits=GroupLimits(requests=max(SIZES), in_flight=4)
    )
    await store.open()
    await filled(store)
    head = await known(store)
    found: dict[int, list[Ratio]] = {}
    for number in range(PAIRS):
        for size in SIZES:
            pair: dict[bool, Figure] = {}
            for witnessed in (number % 2 == 0, number % 2 != 0):  # in turn, for the machine's load comes and goes
                with nullcontext() if witnessed else patch.object(zookeeper, "build", unwitnessed):
                    pair[witnessed], head = await measure(store, head, size, 4, PAIR_SECONDS)
            ratio = Ratio(pair[True].rate / pair[False].rate, pair[True].latency / pair[False].latency)
            found.setdefault(size, []).append(ratio)
    await store.close()
    return {
        size: Ratio(statistics.median(each.rate for each in ratios), statistics.median(each.latency for each in ratios))
        for size, ratios in found.items()
    }


def median(figures: list[Figure]) -> Figure:
    """Of each part by itself."""
    rates = [figure.rate for figure in figures]
    return Figure(statistics.median(rates), statistics.median(figure.latency for figure in figures))


def main() -> None:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    flags.add_argument("--seconds", type=float, default=2.0)
    flags.add_argument("--rounds", type=int, default=3)
    given = flags.parse_args()
    with tempfile.TemporaryDirectory() as directory, ensemble(Path(directory), tick_seconds=2.0) as servers:
        ratios = asyncio.run(compare(servers.hosts))
        figures = asyncio.run(run(servers.hosts, given.seconds, given.rounds))
    one = figures[1, 1].rate
    print("requests a group" + "".join(f"{in_flight:>8} in flight " for in_flight in IN_FLIGHT))
    for size in SIZES:
        row = [figures[size, in_flight] for in_flight in IN_FLIGHT]
        print(f"{size:>16}" + "".join(f"{each.rate / one:>8.1f} x {each.latency * 1000:>5.0f} ms" for each in row))
    witness = (f"{size}: {each.rate:.2f} x the rate, {each.latency:.2f} x the time" for size, each in ratios.items())
    print("with a witness, by requests a group: " + "; ".join(witness))


if __name__ == "__main__":
    main()
