"""The garbage collector: finds blobs that were written under older leaderships and that no record names, and deletes
them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from milepost.errors import Problem
from milepost_backends.contract import BlobStore, PointerStore
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.blobs.keys import owner_of, place_of, prefix_of
from milepost_server.journal import Journal
from milepost_server.model.records import DEPLOYMENT_KEY, Deployment

log = logging.getLogger("milepost.collector")


async def collect(
    journal: Journal,
    pointers: PointerStore,
    blobs: BlobStore,
    deletions: DeletionQueue,
    loop_time: LoopTimeBudget,
    *,
    older_than: float,
    may_go_on: Callable[[], bool],
    ready: Callable[[str], Awaitable[None]],
) -> int:
    """Make one round of garbage collection, and return the number of blobs that were passed to the deletion queue.

    A blob is deleted if all of this is true: its key has this deployment's id; its key has a term before this
    leadership; no handle, tree or pending upload names it; and after these checks, the head of the stored journal still
    has this leader's term. No record begins to name such a blob later, so the blobs can be checked one after another.

    Only blobs that are at least ``older_than`` seconds old are checked. The round ends early once ``may_go_on`` returns
    False, since this replica may then not lead any more.

    Three kinds of blobs are spared. Blobs of this leadership: a request in flight may be about to name them. Blobs of a
    store with a record that cannot be read, or with a tree that is not loaded, since that record or tree may name any
    of them; ``ready`` waits until the tree of a store is loaded. Blobs in the deletion queue, which deletes them
    itself. A list of digests is deleted together with its file's blob, or later.
    """
    if not may_go_on():
        return 0
    if not isinstance(journal.state().get(DEPLOYMENT_KEY), Deployment):
        log.warning("collect no blobs: the record of the deployment, which says which blobs are its own, is damaged")
        return 0
    candidates: list[str] = []
    stores: dict[str, None] = {}
    async for info in blobs.list(prefix_of(journal.deployment), older_than):
        place = place_of(info.key)
        if place is not None and _is_older(place.term, journal.first_term):
            candidates.append(info.key)
            stores[place.store] = None
    if not candidates or not may_go_on():
        return 0
    for store in stores:
        try:
            await ready(store)
        except Problem as error:
            log.warning("cannot tell which blobs the tree of %s names: %s", store, error)
    spared: set[str] = set()
    orphans: list[str] = []

    def judge(key: str) -> None:
        state, place, owner = journal.state(), place_of(key), owner_of(key)
        if place is None:
            return
        if state.has_unreadable(place.store) or state.unloaded(place.store):
            spared.add(place.store)
        elif not (state.names_blob(place.store, owner) or deletions.holds(owner)):
            orphans.append(key)

    await loop_time.each(candidates, judge)
    for store in sorted(spared):
        log.warning("collect no blobs of store %s: what may name them cannot be read", store)
    if not orphans or not await pointers.confirm(journal.head) or not may_go_on():
        return 0
    known = set(orphans)
    # keep only blobs whose owner is not deleted too: `DeletionQueue` deletes a list of digests together with its blob
    orphans = [key for key in orphans if (owner := owner_of(key)) == key or owner not in known]
    log.info("discarding %d blobs of older leaderships that nothing names", len(orphans))
    for key in orphans:
        if not may_go_on():
            break
        await deletions.try_delete(key)
    return len(orphans)


def _is_older(term: int, first: int) -> bool:
    """Return whether ``term`` is before ``first``, the first term of this leadership. No new record names blobs of such
    a term.
    """
    return term < first
