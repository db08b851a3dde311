"""Loading: what a journal is under a head, and whether that is what was committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from backends.contract import Head, JournalDamaged, Leadership, PointerStore
from service.journal.lease import LeaderLease
from service.journal.proof import Proof
from service.rules.checksums import Digest, hash_of, is_sealed
from service.rules.memory.state import State
from service.rules.records import Corrupt, decode, is_ours

log = logging.getLogger("milepost.journal")

_LOAD_CHUNK = 500


@dataclass(slots=True)
class Loaded:
    """A journal as it was found under a head: its records, and how many bytes they take.

    ``proof``: the hashes of those that prove themselves, though this release may not know what is in them. ``damaged``:
    records of ours that do not, each with what it says its hash is. What is in neither is a stranger's.
    """

    state: State
    proof: Proof
    size: int = 0
    damaged: dict[str, int] = field(default_factory=dict)


async def load(store: PointerStore, head: Head, gets_on: Callable[[], None] = lambda: None) -> Loaded:
    """The journal as it stands under ``head``. ``gets_on`` is called after every so many records, and may raise."""
    loaded = Loaded(State(), Proof())
    count = 0
    async for key, value in store.load(head):
        if value is not None:
            record = decode(key, value)
            loaded.state.apply([(key, record)])
            if not isinstance(record, Corrupt) or is_sealed(key, value):
                loaded.proof.apply([(key, value)])
            elif is_ours(key):
                loaded.damaged[key] = hash_of(key, value)
            loaded.size += len(key) + len(value)
        count += 1
        if count % _LOAD_CHUNK == 0:
            gets_on()
            await asyncio.sleep(0)
    return loaded


def verify(loaded: Loaded, head: Head, accepted: Collection[str]) -> None:
    """Compare what was found with the digest of ``head``, and count damaged records with the hashes that they had.

    Records that are damaged explain a digest that differs, if none is missing. ``accepted`` are the losses that the
    owner accepts.

    Raises `JournalDamaged`.
    """
    proof, damaged = loaded.proof, loaded.damaged
    proof.count(damaged.items())
    found = proof.digest
    if found == head.digest:
        return
    what = (
        f"the records of journal {head.journal!r} are not those of its last commit: their digest is {found}, and not"
        f" {head.digest}"
    )
    told = Digest.read(head.digest)
    if told is not None and told.records == len(proof.hashes):
        if damaged:
            log.error("%s: that is taken for the work of the records that are damaged (%d)", what, len(damaged))
            proof.leave_open(damaged, told.total, told.lost)
            return
        if told.lost:
            log.error("%s: %d of the records that were damaged are gone, and what they were with them", what, told.lost)
            return
    error = JournalDamaged(
        f"{what}: at least one is missing, an older copy, or was put there by somebody else. Put back what is stored as"
        " it was, from a backup if need be",
        f"{head.journal} {head.digest} {found}",
    )
    if error.loss not in accepted:
        raise error
    log.error("%s: accepted as the loss %s; see --epochs-above for epochs that were granted since", what, error.loss)
    if damaged:  # whatever they were may be put back all the same
        proof.leave_open(damaged, proof.total, lost=1)


async def take_over(
    store: PointerStore,
    name: str,
    lease: LeaderLease,
    leadership: Leadership,
    *,
    ours: Head | None,
    taken: Callable[[Head], None],
    seconds: float,
) -> Loaded:
    """Take the journal ``name`` over and load what stands under the head of the next term.

    ``taken`` is told that head before anything else may fail, so that it is never mistaken for a successor's. Each step
    may take ``seconds``: a load as a whole may take as long as there is to load, if it gets on, or nobody could ever
    lead once that is too much. ``ours``: see `PointerStore.take_over`.

    Raises `LeadershipLost`, TimeoutError, and what `PointerStore.take_over` and `PointerStore.load` raise.
    """
    now = asyncio.get_running_loop().time
    async with asyncio.timeout(seconds) as deadline:

        def gets_on() -> None:
            lease.require(leadership)
            deadline.reschedule(now() + seconds)

        head = await store.take_over(name, ours)
        taken(head)
        gets_on()
        loaded = await load(store, head, gets_on)
    lease.require(leadership)
    return loaded
