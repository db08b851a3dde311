"""Enter what happens to a job into the history of its store, in the commit of the act itself.

The functions return changes for the decision that grants the act. So a request that is refused, or that is answered
again from its idempotency key, enters nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from milepost_server.memory.view import View
from milepost_server.model.history import (
    ACTS,
    BATCHES,
    EPOCH_ENDED,
    EPOCH_GRANTED,
    HISTORY_RESTORED,
    KEPT_DAYS,
    MOST_PAGES,
    MOST_QUERIES,
    SUPERSEDED,
    HistoryEntry,
    HistoryPage,
    Reached,
    page_key,
)
from milepost_server.model.records import Session, Store, Stored
from milepost_server.model.requests.base import Request
from milepost_server.model.requests.handles import ReportRows
from milepost_server.model.trees import Entry, Savepoint, Tree, TreeSnapshot
from milepost_server.rules.answers import epoch_holder
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Handlers

MOST_LED: Final = 8
"""For how many epochs the end of a session is entered in its own commit. Those beyond count as ``superseded`` once the
next epoch is granted.
"""

_MOST_DROPPED: Final = 2
"""The most pages that one commit drops, to bound the commit."""

_PAGES_WITH_ROWS: Final = 4
"""The newest pages of batches, on which entries still get their numbers of rows: drivers report them within seconds."""

Pages = dict[str, HistoryPage | None]
"""The changed pages of a history by key; None drops the page."""


class _Log(NamedTuple):
    """A log of the history of ``store``: the ``numbers`` of its pages, and the newest page, None if there is none or if
    it cannot be read.
    """

    store: str
    name: str
    numbers: list[int]
    page: HistoryPage | None

    def key(self, number: int) -> str:
        """Return the key of a page."""
        return page_key(self.store, self.name, number)


def epoch_granted(view: View, store: Store, session: Session, context: DecisionContext) -> Pages:
    """Enter the grant of the epoch in ``store`` to ``session``. If the epoch before has not ended as far as the history
    knows, enter its end too.
    """
    log = _log(view, store.name, ACTS)
    granted = HistoryEntry(
        context.wall,
        context.revision,
        EPOCH_GRANTED,
        epoch=store.epoch,
        session=session.id,
        holder=session.holder,
        process=session.process,
    )
    return _appended(view, log, (*_superseded(log.page, 0, context), granted), context, led=store.epoch)


def epoch_ended(
    view: View,
    store: Store,
    session: Session,
    how: str,
    context: DecisionContext,
    by: str = "",
    also: Sequence[HistoryEntry] = (),
) -> Pages:
    """Enter the end of the epoch that ``session`` held. ``by`` is the name of the client that ended it. The entries
    ``also`` are those of further effects of the same commit.
    """
    log = _log(view, store.name, ACTS)
    ended = HistoryEntry(
        context.wall,
        context.revision,
        EPOCH_ENDED,
        epoch=store.epoch,
        session=session.id,
        holder=session.holder,
        process=session.process,
        since=store.epoch_since or "",
        how=how,
        by="" if by == session.owner or not session.owner else by,
    )
    return _appended(view, log, (*_superseded(log.page, store.epoch, context), ended, *also), context, led=0)


def session_ended(view: View, session: Session, how: str, context: DecisionContext, by: str = "") -> Pages:
    """Enter the end of the epochs that a session holds when it ends, at most `MOST_LED` of them."""
    pages: Pages = {}
    entered = 0
    for name in view.led_by(session):
        store = view.store(name)
        if entered < MOST_LED and isinstance(store, Store) and epoch_holder(view, store) == session:
            pages |= epoch_ended(view, store, session, how, context, by)
            entered += 1
    return pages


def act(view: View, request: Request, kind: str, context: DecisionContext, **about: Any) -> Pages:
    """Enter what a client did to the job: an act of the given ``kind``. ``about`` are further members of the entry."""
    return acts(view, request, {kind: about}, context)


def acts(view: View, request: Request, kinds: Mapping[str, Mapping[str, Any]], context: DecisionContext) -> Pages:
    """Enter several acts of one request, in their order: the further members of the entry of each kind."""
    session = view.session(request.session) if request.session else None
    acting = session if isinstance(session, Session) else Session("", 0.0, 0)
    stated: dict[str, Any] = {
        "session": acting.id,
        "holder": acting.holder,
        "process": acting.process,
        "by": request.attempt.name,
    }
    entries = [
        HistoryEntry(context.wall, context.revision, kind, **{**stated, **about}) for kind, about in kinds.items()
    ]
    return _appended(view, _log(view, request.store or "", ACTS), tuple(entries), context)


def batch_committed(
    view: View,
    tree: Tree,
    directory: str,
    batch: int,
    offsets: Entry | None,
    epoch: int | None,
    context: DecisionContext,
) -> Pages:
    """Enter the commit of a batch, of which the same commit takes a snapshot. ``offsets`` is the file with which Spark
    began it, None if there is none. If an earlier epoch began it, that driver left it uncommitted, and the batch was
    run again. ``tree`` is the record of the tree before this commit.

    A file that a restore from a backup writes is no new batch: the history that it has restored has that already.
    """
    store = view.store_or_new(tree.name)
    if _is_of_restore(view, store, epoch):
        return {}
    log = _log(view, tree.name, BATCHES)
    page = log.page
    reached = {each.directory: each.batch for each in page.reached} if page is not None else dict(_of_tree(tree))
    if page is not None and page.entries and page.entries[-1].revision <= store.dropped:
        reached = {}  # a job that begins anew commits no batch again
    before = reached.pop(directory, -1)
    if page is not None and page.entries and page.entries[-1].directory == directory:
        directory = page.entries[-1].directory or directory  # share one string in memory
    entry = HistoryEntry(
        context.wall,
        context.revision,
        epoch=epoch or 0,
        batch=batch,
        directory=directory,
        since="" if offsets is None else offsets.modified,
        begun_under=0 if offsets is None or offsets.epoch == epoch else offsets.epoch or 0,
        replay=batch <= before,
    )
    reached[directory] = max(batch, before)
    latest = tuple(Reached(*each) for each in list(reached.items())[-MOST_QUERIES:])
    return _appended(view, log, (entry,), context, reached=latest)


def report_rows(view: View, request: ReportRows, _: DecisionContext) -> Decision:
    """Enter the numbers of input rows of batches into their entries, as far as these are on the newest pages and are of
    the request's epoch. What is entered already stays, so that a repeated request changes nothing.
    """
    changes: dict[str, Stored | None] = {}
    entered = 0
    for number in view.history_pages(request.store_name, BATCHES)[-_PAGES_WITH_ROWS:]:
        key = page_key(request.store_name, BATCHES, number)
        page = view.get(key)
        if not isinstance(page, HistoryPage):
            continue
        entries = tuple(_with_rows(entry, request) for entry in page.entries)
        if entries != page.entries:
            changes[key] = replace(page, entries=entries)
            entered += sum(new is not old for new, old in zip(entries, page.entries, strict=True))
    return Accepted(Answer({"entered": entered}), changes)


def _with_rows(entry: HistoryEntry, request: ReportRows) -> HistoryEntry:
    """Return the entry with its number of rows, or the same entry if the request does not say it."""
    rows = request.rows.get(-1 if entry.batch is None else entry.batch)
    is_meant = entry.directory == request.directory and entry.epoch == request.epoch and entry.input_rows is None
    return entry if rows is None or not is_meant else replace(entry, input_rows=rows)


def _is_of_restore(view: View, store: Store, epoch: int | None) -> bool:
    """Return whether the session that holds ``epoch`` has restored the history of the store from a backup. An id that
    was given to another session since does not count.
    """
    page = _log(view, store.name, ACTS).page
    holder = epoch_holder(view, store)
    if page is None or holder is None or epoch != store.epoch:
        return False
    return any(
        entry.kind == HISTORY_RESTORED
        and not entry.restored
        and entry.session == holder.id
        and holder.created_revision < entry.revision
        for entry in page.entries
    )


def _of_tree(tree: Tree) -> Iterable[tuple[str, int]]:
    """Return the highest batch of each query that the snapshots of a tree show, for a job without a readable page."""
    highest: dict[str, int] = {}
    kept: tuple[TreeSnapshot | Savepoint, ...] = (*tree.savepoints, *tree.passed_over, *tree.snapshots)
    for each in kept:
        highest[each.directory] = max(each.batch, highest.get(each.directory, -1))
    return highest.items()


def _superseded(page: HistoryPage | None, epoch: int, context: DecisionContext) -> tuple[HistoryEntry, ...]:
    """Return, as a tuple, the end of the epoch that did not end before ``epoch`` as far as the history knows; an empty
    tuple if there is none.
    """
    if page is None or page.led in (0, epoch):
        return ()
    return (HistoryEntry(context.wall, context.revision, EPOCH_ENDED, epoch=page.led, how=SUPERSEDED),)


def _log(view: View, store: str, name: str) -> _Log:
    """Return a log of a store's history as it will be once the groups in flight have been committed."""
    numbers = view.history_pages(store, name)
    page = view.get(page_key(store, name, numbers[-1])) if numbers else None
    return _Log(store, name, numbers, page if isinstance(page, HistoryPage) else None)


def _appended(
    view: View, log: _Log, entries: tuple[HistoryEntry, ...], context: DecisionContext, **carried: Any
) -> Pages:
    """Append entries to the newest page of a log, or to a new page if that one is full or cannot be read. A page that
    cannot be read is never written; it is dropped in its turn, like any other.
    """
    page = log.page
    numbered = tuple(replace(entry, number=number) for number, entry in enumerate(entries))
    if page is not None and not page.is_full:
        return {log.key(log.numbers[-1]): replace(page, entries=(*page.entries, *numbered), **carried)}
    number = log.numbers[-1] + 1 if log.numbers else 1
    begun = HistoryPage(
        f"{log.name}-{number}", led=0 if page is None else page.led, reached=() if page is None else page.reached
    )
    pages: Pages = dict.fromkeys(_outdated(view, log, context))
    pages[log.key(number)] = replace(begun, entries=numbered, **carried)
    return pages


def _outdated(view: View, log: _Log, context: DecisionContext) -> list[str]:
    """Return the keys of the pages to drop when another page is begun: those beyond the limit, and old ones."""
    outdated: list[str] = []
    for left, number in zip(range(len(log.numbers), 0, -1), log.numbers, strict=True):
        key = log.key(number)
        if len(outdated) == _MOST_DROPPED or (left < MOST_PAGES[log.name] and not _is_old(view.get(key), context.wall)):
            break
        outdated.append(key)
    return outdated


def _is_old(page: object, wall: str) -> bool:
    if not isinstance(page, HistoryPage) or not page.entries:
        return False
    try:
        age = datetime.fromisoformat(wall) - datetime.fromisoformat(page.entries[-1].at)
    except (ValueError, TypeError):
        return False  # one of the times is not a time of day
    return age > timedelta(days=KEPT_DAYS)


HANDLERS: Final[Handlers] = {ReportRows: report_rows}
