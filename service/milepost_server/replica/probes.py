"""Probe whether a replica is ready, that is, leads or knows the leader, and gets answers from its backends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from milepost_backends.contract import BackendError, PointerStore
from milepost_server.basics.waiting import within
from milepost_server.blobs.shared_key import SharedKey
from milepost_server.blobs.timeouts import BlobsWithTimeout
from milepost_server.journal import Journal
from milepost_server.replica.leader_locator import LeaderLocator

_PROBE_SECONDS = 2.0
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ProbeLine:
    """The result of one probe: the probed part of the replica, whether it is ready, and an explanation as text."""

    part: str
    ok: bool
    text: str


class Probes:
    """The probes that show whether a replica is ready: of its leadership, records, pointer store and blob store. Each
    takes two seconds at most.
    """

    def __init__(
        self,
        journal: Journal,
        pointers: PointerStore,
        blobs: BlobsWithTimeout,
        key: SharedKey,
        leader_locator: LeaderLocator,
    ) -> None:
        self._journal = journal
        self._pointers = pointers
        self._blobs = blobs
        self._key = key
        self._leader_locator = leader_locator

    async def run(self, exclude: Collection[str] = ()) -> list[ProbeLine]:
        """Probe leadership, records, pointer store and blob store, except those in ``exclude``, and return a line for
        each.
        """
        parts: dict[str, Callable[[], Awaitable[ProbeLine]]] = {
            "leadership": self._leadership,
            "records": self._records,
            "pointers": self._pointer_store,
            "blobs": self._blob_store,
        }
        return [await ask() for part, ask in parts.items() if part not in exclude]

    async def _records(self) -> ProbeLine:
        """Probe the records.

        Damaged records harm no others, so a replica with damaged records is ready. A replica that could not verify the
        stored records at its last take-over is ready only if another replica leads.
        """
        journal = self._journal
        if not journal.lease_holds():
            if journal.unproven is None:
                return ProbeLine("records", True, "not loaded here")
            try:
                leader = await within(_PROBE_SECONDS, self._leader_locator.elsewhere())
            except TimeoutError:
                leader = None
            return ProbeLine("records", leader is not None, journal.unproven)
        if damaged := journal.damaged:
            shown = ", ".join(damaged[:_SHOWN])
            return ProbeLine("records", True, f"{len(damaged)} are damaged (see docs/damage.md): {shown}")
        return ProbeLine("records", True, f"{journal.records} in memory")

    async def _leadership(self) -> ProbeLine:
        if self._journal.lease_holds():
            return ProbeLine("leadership", True, f"leads at term {self._journal.term}")
        try:
            leader = await within(_PROBE_SECONDS, self._leader_locator.elsewhere())
        except TimeoutError:
            return ProbeLine("leadership", False, "the election does not answer in time")
        return ProbeLine("leadership", leader is not None, f"follows {leader}" if leader else "no leader is known")

    async def _pointer_store(self) -> ProbeLine:
        try:
            journals = await within(_PROBE_SECONDS, self._pointers.journals())
        except (BackendError, TimeoutError) as error:
            return ProbeLine("pointers", False, str(error) or "no answer in time")
        full = self._pointers.full
        return ProbeLine("pointers", True, f"{len(journals)} journals" + (f"; full: {full}" if full else ""))

    async def _blob_store(self) -> ProbeLine:
        """Probe the blob store. If the key that the replicas share is damaged, the replica is still ready, since only
        the files of jobs cannot be read or written.
        """
        try:
            await within(_PROBE_SECONDS, anext(self._blobs.list("", 0.0), None))
            await within(_PROBE_SECONDS, self._key.look())
        except (BackendError, TimeoutError) as error:
            return ProbeLine("blobs", False, str(error) or "no answer in time")
        notes = [f"full: {self._blobs.full}"] if self._blobs.full else []
        notes += [self._key.damage] if self._key.damage else []
        return ProbeLine("blobs", True, "; ".join(["listed", *notes]))
