"""Is a replica ready: can it lead or name the leader, and do its backends answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from backends.contract import BackendError
from service.leader import Replica
from service.leader_locator import LeaderLocator
from service.timeouts import within

_PROBE_SECONDS = 2.0
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ProbeLine:
    """What is known of one part."""

    part: str
    ok: bool
    text: str


async def probe(replica: Replica, leader_locator: LeaderLocator, exclude: Collection[str] = ()) -> list[ProbeLine]:
    """A line per part, leadership, records, pointers, blobs, but for those to ``exclude``: these are not asked."""
    parts: dict[str, Callable[[], Awaitable[ProbeLine]]] = {
        "leadership": lambda: _leadership(replica, leader_locator),
        "records": lambda: _records(replica, leader_locator),
        "pointers": lambda: _pointers(replica),
        "blobs": lambda: _blobs(replica),
    }
    return [await ask() for part, ask in parts.items() if part not in exclude]


async def _records(replica: Replica, leader_locator: LeaderLocator) -> ProbeLine:
    """Damaged records spoil nothing but themselves, so a replica that has some is ready all the same.

    So is one that could not prove what is stored, if another could and leads.
    """
    if not replica.leads and replica.damage is not None:
        try:
            leader = await within(_PROBE_SECONDS, leader_locator.elsewhere())
        except TimeoutError:
            leader = None
        return ProbeLine("records", leader is not None, replica.damage)
    damaged = replica.journal.damaged if replica.leads else []
    if damaged:
        shown = ", ".join(damaged[:_SHOWN])
        return ProbeLine("records", True, f"{len(damaged)} are damaged (see docs/damage.md): {shown}")
    return ProbeLine("records", True, f"{replica.journal.records} in memory" if replica.leads else "with the leader")


async def _leadership(replica: Replica, leader_locator: LeaderLocator) -> ProbeLine:
    if replica.leads:
        return ProbeLine("leadership", True, f"leads at term {replica.journal.term}")
    try:
        leader = await within(_PROBE_SECONDS, leader_locator.elsewhere())
    except TimeoutError:
        return ProbeLine("leadership", False, "the election gives no answer in time")
    return ProbeLine("leadership", leader is not None, f"follows {leader}" if leader else "no leader is known")


async def _pointers(replica: Replica) -> ProbeLine:
    try:
        journals = await within(_PROBE_SECONDS, replica.pointers.journals())
    except (BackendError, TimeoutError) as error:
        return ProbeLine("pointers", False, str(error) or "no answer in time")
    full = replica.pointers.full
    return ProbeLine("pointers", True, f"{len(journals)} journals" + (f"; full: {full}" if full else ""))


async def _blobs(replica: Replica) -> ProbeLine:
    try:
        await within(_PROBE_SECONDS, anext(replica.blobs.list("", 0.0), None))
    except (BackendError, TimeoutError) as error:
        return ProbeLine("blobs", False, str(error) or "no answer in time")
    full = replica.blobs.full
    return ProbeLine("blobs", True, "listed" + (f"; full: {full}" if full else ""))
