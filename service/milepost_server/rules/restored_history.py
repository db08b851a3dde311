"""Decide to restore the history of a job from a backup: its entries become the first ones of the store's history.

A history is restored only where there is none, and in one commit, so a repeated restore cannot double it. It is
bounded like any history; the oldest entries are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.memory.view import View
from milepost_server.model.history import (
    ACTS,
    BATCH_COMMITTED,
    BATCHES,
    DROPPED,
    ENDS,
    EPOCH_ENDED,
    EPOCH_GRANTED,
    HISTORY_RESTORED,
    KINDS,
    MOST_PAGES,
    MOST_QUERIES,
    PAGE_BYTES,
    PAGE_ENTRIES,
    HistoryEntry,
    HistoryPage,
    Reached,
    page_key,
    page_keys,
)
from milepost_server.model.records import Session, Stored
from milepost_server.model.requests.history import RestoreHistory
from milepost_server.rules import history, replays
from milepost_server.rules.answers import epoch_holder
from milepost_server.rules.decisions import Answer, Decision, DecisionContext, Handlers, Refused

MOST_BYTES: Final = 192 * 1024
"""The most bytes of entries that are restored, half of them batches. With the record of the store, they fit into one
commit of every pointer store, of which the smallest has 256 KiB.
"""

_ENCODER: Final = msgspec.json.Encoder()


def restore_history(view: View, request: RestoreHistory, context: DecisionContext) -> Decision:
    """Enter the saved entries, and after them that they were restored. Each gets its place among the events of the job
    by this commit, and keeps its time, epoch and holder.

    A restore of the same backup that goes on after an interruption enters only that, so that its session is known.
    """
    store = view.store_or_new(request.store_name)
    if any(view.history_pages(store.name, log) for log in (ACTS, BATCHES)):
        if _is_continued(view, request):
            goes_on = history.act(view, request, HISTORY_RESTORED, context, since=request.saved, source=request.source)
            return replays.accepted(store, request, context, Answer({"entered": 0}), changes=goes_on)
        return Refused(Code.ALREADY_EXISTS, f"{store.name!r} has a history already, which is never replaced")
    holder = epoch_holder(view, store)
    if holder is not None:
        about = {"holder": holder.holder, "epoch": store.epoch}
        return Refused(Code.HELD, f"session {holder.id!r} ({holder.holder}) holds epoch {store.epoch}", about)
    if why := _wrong(request.entries, max(store.epoch, context.epoch_floor)):
        return Refused(Code.INVALID_REQUEST, f"the saved history of {store.name!r} cannot be restored: {why}")
    session = view.session(request.session)
    acting = session if isinstance(session, Session) else Session("", 0.0, 0)
    said = HistoryEntry(
        context.wall,
        context.revision,
        HISTORY_RESTORED,
        number=len(request.entries),
        session=acting.id,
        holder=acting.holder,
        process=acting.process,
        by=request.attempt.name,
        since=request.saved,
        source=request.source,
    )
    placed = [
        replace(entry, revision=context.revision, number=number, restored=True)
        for number, entry in enumerate(request.entries)
    ]
    kept = _newest(placed, BATCHES, MOST_BYTES // 2)
    batches = _pages(BATCHES, kept, reached=_reached(placed))
    kept = _newest(placed, ACTS, MOST_BYTES - sum(map(_size, kept)))
    acts = _pages(ACTS, [*kept, said], led=_led(placed))
    entered = sum(len(page.entries) for page in (*acts, *batches)) - 1
    acts[-1] = replace(acts[-1], entries=(*acts[-1].entries[:-1], replace(said, entries=entered)))
    changes: dict[str, Stored | None] = {f"{page_keys(store.name)}{page.name}": page for page in (*acts, *batches)}
    return replays.accepted(store, request, context, Answer({"entered": entered}), changes=changes)


def _is_continued(view: View, request: RestoreHistory) -> bool:
    """Return whether the history was restored from this very backup, and the job has committed no batch since."""
    acts, batches = (_newest_page(view, request.store_name, log) for log in (ACTS, BATCHES))
    if acts is None or (batches is not None and not batches.entries[-1].restored):
        return False
    return any(
        entry.kind == HISTORY_RESTORED
        and not entry.restored
        and (entry.since, entry.source) == (request.saved, request.source)
        for entry in acts.entries
    )


def _newest_page(view: View, store: str, log: str) -> HistoryPage | None:
    numbers = view.history_pages(store, log)
    page = view.get(page_key(store, log, numbers[-1])) if numbers else None
    return page if isinstance(page, HistoryPage) else None


def _wrong(entries: Sequence[HistoryEntry], granted: int) -> str:
    """Return why the service would never have entered these entries in this order; empty if it might have.

    ``granted`` is the greatest epoch that may have been granted before. The numbers of epochs rise, whatever the times
    of day say.
    """
    last_granted = last_ended = 0
    for number, entry in enumerate(entries, 1):
        if entry.kind not in KINDS:
            return f"entry {number} is of the kind {entry.kind[:60]!r}, which is not known here"
        epoch = max(entry.epoch, entry.begun_under)
        if epoch > granted:
            return f"entry {number} is of epoch {epoch}, which the service may still grant"
        if entry.kind == BATCH_COMMITTED and (entry.batch is None or entry.directory is None):
            return f"entry {number} is about a batch, and does not name it"
        if entry.kind == EPOCH_GRANTED:
            if entry.epoch <= max(last_granted, last_ended):
                return f"entry {number} grants epoch {entry.epoch}, which is not above those before"
            last_granted = entry.epoch
        if entry.kind == EPOCH_ENDED:
            if entry.how not in ENDS or entry.epoch <= last_ended or entry.epoch < last_granted:
                return f"entry {number} ends epoch {entry.epoch} ({entry.how[:60]!r}), which cannot be"
            last_ended = entry.epoch
    return ""


def _newest(entries: Sequence[HistoryEntry], log: str, left: int) -> list[HistoryEntry]:
    """Return the entries of a log, the oldest first: the newest that fit into ``left`` bytes."""
    found: list[HistoryEntry] = []
    for entry in reversed(entries):
        if (entry.kind == BATCH_COMMITTED) is (log == BATCHES):
            left -= _size(entry)
            if left < 0:
                break
            found.append(entry)
    return found[::-1]


def _size(entry: HistoryEntry) -> int:
    return len(_ENCODER.encode(entry)) + 1


def _pages(
    log: str, entries: Iterable[HistoryEntry], led: int = 0, reached: tuple[Reached, ...] = ()
) -> list[HistoryPage]:
    """Return the pages of a log with these entries, the newest that a log keeps, numbered from 1. An empty log has no
    page.
    """
    filled: list[list[HistoryEntry]] = []
    size = PAGE_BYTES
    for entry in entries:
        if size >= PAGE_BYTES or len(filled[-1]) >= PAGE_ENTRIES[log]:
            filled.append([])
            size = 0
        filled[-1].append(entry)
        size += _size(entry)
    return [
        HistoryPage(f"{log}-{number}", tuple(page), led=led, reached=reached)
        for number, page in enumerate(filled[-MOST_PAGES[log] :], 1)
    ]


def _led(entries: Sequence[HistoryEntry]) -> int:
    """Return the epoch that was granted last, if no entry says that it ended; else 0."""
    led = 0
    for entry in entries:
        if entry.kind == EPOCH_GRANTED:
            led = entry.epoch
        elif entry.kind == EPOCH_ENDED:
            led = 0
    return led


def _reached(entries: Sequence[HistoryEntry]) -> tuple[Reached, ...]:
    """Return the highest batch of each query, the query of the newest batch last. A job that begins anew after a drop
    commits no batch again.
    """
    reached: dict[str, int] = {}
    for entry in entries:
        if entry.kind == DROPPED:
            reached = {}
        if entry.kind == BATCH_COMMITTED:
            directory, batch = entry.directory or "", entry.batch or 0
            reached[directory] = max(batch, reached.pop(directory, -1))
    return tuple(Reached(*each) for each in list(reached.items())[-MOST_QUERIES:])


HANDLERS: Final[Handlers] = {RestoreHistory: restore_history}
