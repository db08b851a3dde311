"""The collector: finds blobs of older leaderships that nothing names, and discards them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from backends.contract import BlobStore, PointerStore
from service.blobs.keys import place_of, prefix_of
from service.blobs.trash import Trash
from service.journal import Journal
from service.rules.lookup import is_pending
from service.rules.records import DEPLOYMENT_KEY, Corrupt, Deployment, Handle, Record, store_of

log = logging.getLogger("milepost.collector")


async def collect(
    journal: Journal,
    pointers: PointerStore,
    blobs: BlobStore,
    trash: Trash,
    *,
    older_than: float,
    may_go_on: Callable[[], bool],
) -> int:
    """One round; returns how many blobs were handed to the trash.

    A blob may go if it is this deployment's, its key carries a term before this leadership, no handle or pending upload
    names it, and the head still carries our term after both were looked at. Blobs of this leadership are never touched:
    a request on its way may be about to name them. Nor are those of a store in which a record cannot be read: it may
    name any of them. What lingers in the trash is left to it, also if it came there while the blobs were listed.
    """
    if not may_go_on():
        return 0
    if not isinstance(journal.read().view.state.get(DEPLOYMENT_KEY), Deployment):
        log.warning("nothing is collected, for the record cannot be read that says which blobs are this deployment's")
        return 0
    candidates = [
        info.key
        async for info in blobs.list(prefix_of(journal.deployment), older_than)
        if _is_older(info.key, journal.first_term)
    ]
    if not candidates or not may_go_on():
        return 0
    records = journal.read().view.state.records
    named, spared = named_by(records.values()), unreadable_in(records)
    for store in sorted(spared):
        log.warning("nothing of store %s is collected, for it has a record that cannot be read", store)
    orphans = [key for key in candidates if not (key in named or trash.holds(key) or _is_of(spared, key))]
    if not orphans or not await pointers.confirm(journal.head) or not may_go_on():
        return 0
    log.info("discarding %d blobs that nothing names", len(orphans))
    for key in orphans:
        if not may_go_on():
            break
        await trash.try_now(key)
    return len(orphans)


def named_by(records: Iterable[Record]) -> set[str]:
    """The blobs that a handle points to, or that a handle may yet take from an upload."""
    return {record.blob for record in records if isinstance(record, Handle) or is_pending(record)}


def unreadable_in(records: Mapping[str, Record]) -> set[str]:
    """The stores that have a record which cannot be read: damaged, or of a newer release."""
    return {store_of(key) or "" for key, record in records.items() if isinstance(record, Corrupt)} - {""}


def _is_older(key: str, term: int) -> bool:
    place = place_of(key)
    return place is not None and place.term < term


def _is_of(stores: set[str], key: str) -> bool:
    place = place_of(key)
    return place is not None and place.store in stores
