"""What adaptive batching gives: requests through a journal with it and without it, on the embedded store and ZooKeeper.

    python -m benchmarks.batching [--seconds 0.5] [--pairs 20]

So many callers send a small write each, wait for its answer, and send the next after a pause: none, or one that is
drawn anew each time and lasts 2 ms on average. Each pair is two measurements in a row, in turn with and without first,
for the machine's load comes and goes. Printed are the medians of the pairs' ratios, with to without: the requests per
second, the median time of a request, and the commits that a request took.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from milepost_backends.contract import Commit, PointerStore
from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_backends.zookeeper.address import ZooKeeperAddress
from milepost_backends.zookeeper.pointers.store import ZooKeeperPointers
from milepost_server.journal import Journal
from milepost_server.journal.commit.batching import AdaptiveBatching
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.sessions import OpenSession
from testbed.zookeeper import ensemble

CALLERS = (1, 8, 64)
PAUSES_SECONDS = (0.0, 0.002)
_REQUEST_SECONDS = 60.0
_LEASE_SECONDS = 3600.0


@dataclass(frozen=True)
class Figures:
    """Requests per second, seconds that a request took (the median), and commits for a request."""

    rate: float
    latency: float
    commits: float

    def to(self, other: Figures) -> Figures:
        """These as a multiple of the other ones."""
        return Figures(self.rate / other.rate, self.latency / other.latency, self.commits / other.commits)


class _Leadership:
    """A lease that holds while the benchmark runs: the store has no other user."""

    def remaining(self, _: float) -> float:
        return _LEASE_SECONDS

    async def wait_lost(self) -> None:
        await asyncio.Event().wait()

    async def resign(self) -> None: ...


class _Led:
    """A journal over a store, and how many groups it has sent there."""

    def __init__(self, store: PointerStore) -> None:
        self.journal = Journal("batching", store, clock=time.monotonic, wall=lambda: "2026-01-01T00:00:00Z")
        self.commits = 0
        self._commit = store.commit

    async def counted(self, *given: Any) -> Commit:
        """In place of the store's ``commit``."""
        self.commits += 1
        return await self._commit(*given)


@asynccontextmanager
async def leading(store: PointerStore) -> AsyncIterator[_Led]:
    """A journal over the store, led."""
    await store.open()
    led = _Led(store)
    with patch.object(store, "commit", led.counted):
        await led.journal.lead(_Leadership())
        running = asyncio.create_task(led.journal.run())
        try:
            yield led
        finally:
            running.cancel()
            await asyncio.wait((running,))
            await store.close()


async def measure(led: _Led, callers: int, pause: float, seconds: float) -> Figures:
    """Let so many callers ask until the time is over."""
    journal, latencies = led.journal, list[float]()
    drawn = random.Random(callers)
    begun, before = time.monotonic(), led.commits

    async def caller(number: int) -> None:
        while time.monotonic() < begun + seconds:
            sent = time.monotonic()
            # The same session again with another time to live: what is stored stays small.
            request = OpenSession(Attempt(f"s{number}"), ttl=60.0 + len(latencies) % 2)
            await journal.wait(journal.submit(request, sent + _REQUEST_SECONDS))
            latencies.append(time.monotonic() - sent)
            if pause:
                await asyncio.sleep(drawn.expovariate(1 / pause))

    await asyncio.gather(*(caller(number) for number in range(callers)))
    commits = (led.commits - before) / len(latencies)
    return Figures(len(latencies) / (time.monotonic() - begun), statistics.median(latencies), commits)


async def compare(name: str, store: PointerStore, seconds: float, pairs: int) -> None:
    """Measure in pairs, and print a line for each number of callers and pause."""
    async with leading(store) as led:
        for pause in PAUSES_SECONDS:
            for callers in CALLERS:
                ratios: list[Figures] = []
                for number in range(pairs):
                    pair: dict[bool, Figures] = {}
                    for batching in (number % 2 == 0, number % 2 != 0):
                        without = patch.object(AdaptiveBatching, "complete", lambda _: True)
                        with nullcontext() if batching else without:
                            pair[batching] = await measure(led, callers, pause, seconds)
                    ratios.append(pair[True].to(pair[False]))
                rate, latency, commits = (
                    statistics.median(getattr(each, part) for each in ratios) for part in ("rate", "latency", "commits")
                )
                print(
                    f"{name:<10} {callers:>3} callers, pause {pause * 1000:.0f} ms: "
                    f"{rate:.2f} x the rate, {latency:.2f} x the time, {commits:.2f} x the commits",
                    flush=True,
                )


async def run(directory: Path, hosts: str, seconds: float, pairs: int) -> None:
    """Both stores, one after the other."""
    await compare("embedded", EmbeddedPointers(directory / "pointers"), seconds, pairs)
    await compare("zookeeper", ZooKeeperPointers(ZooKeeperAddress(hosts)), seconds, pairs)


def main() -> None:
    """Measure and print."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    flags.add_argument("--seconds", type=float, default=0.5)
    flags.add_argument("--pairs", type=int, default=20)
    given = flags.parse_args()
    with tempfile.TemporaryDirectory() as directory, ensemble(Path(directory) / "servers", tick_seconds=2.0) as servers:
        asyncio.run(run(Path(directory), servers.hosts, given.seconds, given.pairs))


if __name__ == "__main__":
    main()
