"""Collect garbage: find blobs of older leaderships that nothing names, and discard them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from backends.contract import BlobStore, PointerStore
from service.basics.slices import Slices
from service.blobs.deletion_queue import DeletionQueue
from service.blobs.keys import place_of, prefix_of
from service.journal import Journal
from service.rules.records import DEPLOYMENT_KEY, Deployment

log = logging.getLogger("milepost.collector")


async def collect(
    journal: Journal,
    pointers: PointerStore,
    blobs: BlobStore,
    deletions: DeletionQueue,
    slices: Slices,
    *,
    older_than: float,
    may_go_on: Callable[[], bool],
) -> int:
    """Make one round, and return how many blobs were handed to the deletion queue.

    A blob may go if it is this deployment's, its key has a term before this leadership, no handle or pending upload
    names it, and the head still carries our term after both were looked at. Nothing begins to name such a blob any
    more, so they can be looked at one after the other. Blobs of this leadership are never touched: a request on its way
    may be about to name them. Nor are those of a store with a record that cannot be read, since that may name any of
    them. Blobs that linger in the deletion queue are left to it, even if they came there during the listing.
    """
    if not may_go_on():
        return 0
    if not isinstance(journal.read().view.state.get(DEPLOYMENT_KEY), Deployment):
        log.warning("collect no blobs: the record of the deployment, which says which blobs are its own, is damaged")
        return 0
    candidates = [
        info.key
        async for info in blobs.list(prefix_of(journal.deployment), older_than)
        if _is_older(info.key, journal.first_term)
    ]
    if not candidates or not may_go_on():
        return 0
    spared: set[str] = set()
    orphans: list[str] = []

    def judge(key: str) -> None:
        state, place = journal.read().view.state, place_of(key)
        if place is not None and state.has_unreadable(place.store):
            spared.add(place.store)
        elif not (state.names_blob(key) or deletions.holds(key)):
            orphans.append(key)

    await slices.each(candidates, judge)
    for store in sorted(spared):
        log.warning("collect no blobs of store %s: it has a record that cannot be read, and may name them", store)
    if not orphans or not await pointers.confirm(journal.head) or not may_go_on():
        return 0
    log.info("discarding %d blobs of older leaderships that nothing names", len(orphans))
    for key in orphans:
        if not may_go_on():
            break
        await deletions.try_delete(key)
    return len(orphans)


def _is_older(key: str, term: int) -> bool:
    place = place_of(key)
    return place is not None and place.term < term
