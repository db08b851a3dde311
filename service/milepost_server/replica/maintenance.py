"""The leader's background work: expire sessions and uploads, finish interrupted removals, drop old records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import islice

from milepost.errors import Problem
from milepost_server.journal import Journal
from milepost_server.memory.indexes import Aged
from milepost_server.memory.lookup import Lookup
from milepost_server.memory.state import State
from milepost_server.model.records import Corrupt, Handle, Session, Store, handle_of
from milepost_server.model.requests.base import LEADER, Attempt
from milepost_server.model.requests.handles import ExpireUpload, Scrub
from milepost_server.model.requests.sessions import ExpireSession
from milepost_server.replica.leases import Leases, UploadLeases
from milepost_server.replica.submitter import COMMIT_SECONDS, Removals, commit
from milepost_server.rules.decisions import Accepted, DecisionContext, FinishNeeded
from milepost_server.rules.handlers.handles import finish_of

log = logging.getLogger("milepost.maintenance")

_BATCH = 100
"""The most old records that one commit drops."""


async def expire_sessions(journal: Journal, leases: Leases, clock: Callable[[], float], interval: float) -> None:
    """End sessions whose deadline has passed, every ``interval`` seconds until cancelled."""
    while True:
        again = leases.overdue
        while again and journal.lease_holds():
            overdue = leases.begin_expiry()
            ended = await asyncio.gather(*(_expire(journal, leases, session, clock) for session in overdue))
            again = all(ended) and leases.overdue
            await asyncio.sleep(0)
        await asyncio.sleep(interval)


async def _expire(journal: Journal, leases: Leases, session: Session, clock: Callable[[], float]) -> bool:
    """Expire a session, and return whether it has ended.

    The function waits for the commit without a limit: while the expiry may still be committed, no keepalive may be
    granted.
    """
    try:
        pending = journal.submit(ExpireSession(Attempt(session.id), session.created_revision), clock() + COMMIT_SECONDS)
        await pending.ended()
    except Problem as error:
        log.warning("cannot expire session %s yet, trying again: %s", session.id, error)
        leases.expiry_failed(session)
        return False
    leases.forget(session.id)
    return True


async def expire_uploads(journal: Journal, leases: UploadLeases, clock: Callable[[], float], interval: float) -> None:
    """End uploads that were not used in time, every ``interval`` seconds until cancelled.

    Bytes that were put for an upload are deleted once its end is committed.
    """
    while True:
        again = leases.overdue
        while again and journal.lease_holds():
            overdue = leases.begin_expiry()
            ended = await asyncio.gather(*(_expire_upload(journal, leases, *upload, clock) for upload in overdue))
            again = all(ended) and leases.overdue
            await asyncio.sleep(0)
        await asyncio.sleep(interval)


async def _expire_upload(
    journal: Journal, leases: UploadLeases, store: str, upload_id: str, clock: Callable[[], float]
) -> bool:
    """Expire an upload, and return whether it has ended.

    The function waits for the commit without a limit: an expiry that may still be committed must not be begun a second
    time.
    """
    try:
        request = ExpireUpload(LEADER, store, upload_id)
        pending = journal.submit(request, clock() + COMMIT_SECONDS)
        decision = (await pending.ended()).decision
    except Problem as error:
        log.warning("cannot expire upload %s in store %s yet, trying again: %s", upload_id, store, error)
        leases.expiry_failed(store, upload_id)
        return False
    leases.forget(store, upload_id)
    if isinstance(decision, Accepted) and decision.changes:
        log.info("upload %s in store %s was not used in time and has expired: its bytes go", upload_id, store)
    return True


async def finish_removals(journal: Journal, removals: Removals, clock: Callable[[], float], interval: float) -> None:
    """Finish removals that were interrupted by a crash or a failed deletion of the blob, every ``interval`` seconds
    until cancelled.
    """
    while True:
        await asyncio.sleep(interval)
        try:
            after = ""
            while keys := list(islice(journal.state().removing(after), _BATCH)):
                for after in keys:
                    if (finish := _unfinished(journal.read().view, after)) is not None:
                        await _finish(removals, finish, clock)
                await asyncio.sleep(0)
        except Problem as error:
            log.warning("cannot finish the open removals now, trying again in %s s: %s", interval, error)


async def _finish(removals: Removals, finish: FinishNeeded, clock: Callable[[], float]) -> None:
    """Finish one removal. A failure is only logged, so that it does not delay other removals."""
    try:
        await removals.finish(finish, clock() + COMMIT_SECONDS)
    except Problem as error:
        log.warning("cannot finish the removal of %s/%s now, trying again later: %s", finish.store, finish.name, error)


def _unfinished(view: Lookup, key: str) -> FinishNeeded | None:
    record, located = view.get(key), handle_of(key)
    if located is None or not isinstance(record, Handle) or not record.removing:
        return None
    store = view.store(located[0]) or Store(located[0])
    return None if isinstance(store, Corrupt) or record.created_revision <= store.cleared else finish_of(store, record)


async def scrub(journal: Journal, clock: Callable[[], float], interval: float) -> None:
    """Drop records that nothing needs any more, such as those of ended sessions, every ``interval`` seconds until
    cancelled. Each run drops all such records, in several commits if necessary.
    """
    while True:
        await asyncio.sleep(interval)
        try:
            await scrub_all(journal, clock)
        except Problem as error:
            log.warning("cannot drop the records that are not needed now, trying again in %s s: %s", interval, error)


async def scrub_all(journal: Journal, clock: Callable[[], float]) -> None:
    """Drop all records that nothing needs any more, in as many commits as that takes. Raises `Problem` if a commit
    fails.
    """
    await _scrub_aged(journal, clock, lambda state, context, after: state.gone(context.keys_horizon, after))
    await _scrub_aged(journal, clock, lambda state, context, after: state.ended(context.sessions_horizon, after))
    await _scrub_cleared(journal, clock)


async def _scrub_aged(
    journal: Journal,
    clock: Callable[[], float],
    aged: Callable[[State, DecisionContext, Aged], Iterator[Aged]],
) -> None:
    after: Aged = (0, "")
    while batch := list(islice(aged(*_now(journal), after), _BATCH)):
        await commit(journal, Scrub(LEADER, keys=tuple([key for _, key in batch])), clock)
        after = batch[-1]


async def _scrub_cleared(journal: Journal, clock: Callable[[], float]) -> None:
    for store in journal.state().stores_with_cleared():
        last: list[str] = []
        while keys := _cleared(journal, store):
            if keys == last:
                break  # these records cannot be dropped now: the next run tries again
            await commit(journal, Scrub(LEADER, keys=tuple(keys)), clock)
            last = keys


def _cleared(journal: Journal, store: str) -> list[str]:
    state, context = _now(journal)
    return list(islice(state.cleared(store, context.keys_horizon), _BATCH))


def _now(journal: Journal) -> tuple[State, DecisionContext]:
    reading = journal.read()
    return reading.view.state, journal.context(reading.revision)
