"""The collector: finds blobs of older leaderships that nothing names, and discards them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from backends.contract import BlobStore, PointerStore
from service.blobs.intake import term_of
from service.blobs.trash import Trash
from service.journal import Journal
from service.rules.records import Corrupt, Handle, Record, store_of
from service.rules.state import is_pending

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

    A blob may go if its key carries a term before this leadership, no handle or pending upload names it, and the head
    still carries our term after both were looked at. Blobs of this leadership are never touched: a request on its way
    may be about to name them. Nor are those of a store in which a record cannot be read: it may name any of them.
    """
    first_term = journal.first_term
    candidates = [
        info.key
        async for info in blobs.list("", older_than)
        if (term := term_of(info.key)) is not None and term < first_term and not trash.holds(info.key)
    ]
    if not candidates or not may_go_on():
        return 0
    records = journal.read().view.state.records
    named, spared = named_by(records.values()), unreadable_in(records)
    for store in sorted(spared):
        log.warning("nothing of store %s is collected, for it has a record that cannot be read", store)
    orphans = [key for key in candidates if key not in named and key.partition("/")[0] not in spared]
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
