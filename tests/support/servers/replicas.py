"""A replica in the test's own process, on real backends with faults in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from milepost_backends.contract import BlobStore, Election, PointerStore
from milepost_backends.embedded.election import EmbeddedElection
from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_backends.local.blobs import LocalBlobs
from milepost_server.blobs.shared_key import SharedKey
from milepost_server.compose import wall_clock
from milepost_server.operations.operations import operations_of
from milepost_server.replica.leader_locator import LeaderLocator
from milepost_server.replica.probes import Probes
from milepost_server.replica.replica import Replica
from milepost_server.replica.settings import Settings
from tests.support.network.faults import FaultyBlobs, FaultyElection, FaultyPointers, ShiftedClock
from tests.support.waiting import until

PROMPT = Settings(
    linger_seconds=0.0,
    expire_interval_seconds=0.02,
    deletion_interval_seconds=0.02,
    maintenance_interval_seconds=3600.0,
    collect_interval_seconds=3600.0,
    inline_below=0,
)
"""What is due is done at once; what is done every so often (maintenance, the collector) is not done unless a test asks.

Small states are blobs as large ones are, so that a test of what becomes of blobs needs no large ones.
"""


@dataclass(frozen=True, slots=True)
class Backends:
    """Unopened backends of one replica."""

    pointers: PointerStore
    election: Election
    blobs: BlobStore


Build = Callable[[str], Backends]
"""Makes the backends of one more replica on the same place, given the URL that it advertises."""


def embedded(directory: Path, blobs: Callable[[], BlobStore] | None = None) -> Build:
    """Everything in one directory, unless ``blobs`` makes a blob store elsewhere."""

    def build(advertise: str) -> Backends:
        pointers = directory / "pointers"
        return Backends(
            EmbeddedPointers(pointers),
            EmbeddedElection(pointers, advertise, poll=0.02),
            LocalBlobs(directory / "blobs") if blobs is None else blobs(),
        )

    return build


class Rig:
    """One replica that can be started, stopped and started again on the same place, and the faults around it."""

    def __init__(self, build: Build, settings: Settings = PROMPT, advertise: str = "http://127.0.0.1:9") -> None:
        self.advertise = advertise
        self.clock = ShiftedClock()
        self.wall = wall_clock
        self._build = build
        self._settings = settings
        self._make(settings)

    def _make(self, settings: Settings) -> None:
        real = self._build(self.advertise)
        self.pointers = FaultyPointers(real.pointers)
        self.election = FaultyElection(real.election, self.clock)
        self.blobs = FaultyBlobs(real.blobs)
        self.replica = Replica(
            pointers=self.pointers,
            election=self.election,
            blobs=self.blobs,
            advertise=self.advertise,
            settings=settings,
            clock=self.clock,
            wall=lambda: self.wall(),
        )
        self.operations = operations_of(self.replica)

    def probes(self) -> Probes:
        """What asks whether each part of the replica is ready."""
        replica = self.replica
        leader_locator = LeaderLocator(self.election, self.advertise, self.clock)
        key = SharedKey(replica.blobs, replica.pointers)
        return Probes(replica.journal, replica.pointers, replica.blobs, key, leader_locator)

    async def start(self, *, leading: bool = True) -> None:
        """Start the replica, and wait until it leads."""
        await self.replica.start()
        if leading:
            await self.leads()
            self.pointers.committed = 0

    async def stop(self) -> None:
        """As SIGTERM does. Idempotent."""
        await self.replica.stop()

    async def restart(self, settings: Settings | None = None) -> None:
        """A new replica on the same place, without any fault, leading."""
        await self.stop()
        self._settings = settings or self._settings
        self._make(self._settings)
        await self.start()

    async def leads(self) -> None:
        """Wait until the replica leads."""

        async def leading() -> bool:
            return self.replica.leads

        await until(leading)

    async def commits(self, count: int) -> None:
        """Wait until so many commits were begun since the start."""

        async def begun() -> bool:
            return self.pointers.committed >= count

        await until(begun)

    async def emptied_trash(self) -> None:
        """Wait until the deletion queue has been through all that was due when this was called."""
        deletions, mark = self.replica.deletions, "mark/000000000000/none"
        deletions.schedule(mark, 0.0)

        async def passed() -> bool:
            return not deletions.holds(mark)

        await until(passed)
        self.blobs.discarded.remove(mark)


@asynccontextmanager
async def rig(
    build: Build, settings: Settings = PROMPT, *, leading: bool = True, advertise: str = "http://127.0.0.1:9"
) -> AsyncIterator[Rig]:
    """A started rig, stopped at the end."""
    made = Rig(build, settings, advertise)
    try:
        await made.start(leading=leading)
        yield made
    finally:
        await made.stop()
