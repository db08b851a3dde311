"""Load a journal from the pointer store, and verify that it holds exactly what was committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from milepost_backends.contract import Head, JournalDamaged, Leadership, PointerStore
from milepost_server.journal.lease import LeaderLease
from milepost_server.journal.proof import Proof
from milepost_server.memory.state import State
from milepost_server.model.checksums import Digest, hash_of, is_sealed
from milepost_server.model.records import Corrupt, decode, is_ours

log = logging.getLogger("milepost.journal")

_LOAD_CHUNK = 500


@dataclass(slots=True)
class Loaded:
    """A journal as it was found in the pointer store: its records in ``state``, and their ``size`` in bytes.

    ``proof`` has the hashes of the records whose checksum is right, even if this release does not know their kind.
    ``damaged`` has the keys of Milepost's records whose checksum is wrong, each with the hash that the record states. A
    key that is in neither ``proof`` nor ``damaged`` belongs to another program.
    """

    state: State
    proof: Proof
    size: int = 0
    damaged: dict[str, int] = field(default_factory=dict)


async def load(store: PointerStore, head: Head, on_progress: Callable[[], None] = lambda: None) -> Loaded:
    """Return the journal that the pointer store ``store`` has under ``head``.

    ``on_progress`` is called after every 500 records; it raises an exception to stop the load.
    """
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
            on_progress()
            await asyncio.sleep(0)
    return loaded


def verify(loaded: Loaded, head: Head, accepted: Collection[str]) -> None:
    """Compare the loaded records with the digest of ``head``.

    A digest that differs is accepted if damaged records explain the difference and no record is missing; the proof then
    counts each damaged record with the hash that it had before the damage. A difference is also accepted if
    ``accepted`` has the name of this loss, because the owner accepts it. Otherwise the function raises
    `JournalDamaged`.
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
    stored = Digest.read(head.digest)
    if stored is not None and stored.records == len(proof.hashes):
        if damaged:
            log.error("%s: none is missing, and %d damaged ones account for it; loading goes on", what, len(damaged))
            proof.mark_unknown(damaged, stored.total, stored.lost)
            return
        if stored.lost:
            log.error(
                "%s: %d of the records that were damaged were replaced or removed since, which accounts for that;"
                " loading goes on",
                what,
                stored.lost,
            )
            return
    error = JournalDamaged(
        f"{what}: at least one is missing, an older copy, or was put there by another program. Put back what is stored"
        " as it was, from a backup if need be",
        f"{head.journal} {head.digest} {found}",
    )
    if error.loss not in accepted:
        raise error
    log.error(
        "%s: accepted as the loss %s, which --accept-loss names; if epochs were granted since, see --epochs-above",
        what,
        error.loss,
    )
    if damaged:  # keep proof of the damaged records, since an operator may restore their right content later
        proof.mark_unknown(damaged, proof.total, lost=1)


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
    """Take the journal ``name`` over, and load the records that the pointer store has under the head of the next term.

    ``ours`` is the head that this process committed last under this lease, None if it committed none. ``taken`` is
    called with the new head at once, so that the caller knows this head as its own even if loading fails. ``seconds``
    limits each step, not the whole load: otherwise a journal that takes long to load could never be led again.

    Raises `LeadershipLost`, TimeoutError, and what `PointerStore.take_over` and `PointerStore.load` raise.
    """
    now = asyncio.get_running_loop().time
    async with asyncio.timeout(seconds) as deadline:

        def on_progress() -> None:
            lease.require(leadership)
            deadline.reschedule(now() + seconds)

        head = await store.take_over(name, ours)
        taken(head)
        on_progress()
        loaded = await load(store, head, on_progress)
    lease.require(leadership)
    return loaded
