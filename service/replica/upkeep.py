"""What a leader does beside answering: expire sessions and uploads, finish removals that were cut off, scrub."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from milepost.errors import Problem
from service.journal import Journal
from service.replica.leases import Leases, UploadLeases
from service.replica.removals import Removals
from service.rules.acts.handles import finish_of
from service.rules.decisions import Accepted, DecisionContext, FinishNeeded
from service.rules.memory.lookup import Lookup
from service.rules.memory.state import Aged, State
from service.rules.records import Corrupt, Handle, Session, Store, handle_of
from service.rules.requests import LEADER, Attempt, ExpireSession, ExpireUpload, Scrub

log = logging.getLogger("milepost.upkeep")

_BATCH = 100
"""So many records are dropped by one commit."""

_COMMIT_SECONDS = 30.0
_MOST_REST_SECONDS = 1.0


async def expire_sessions(journal: Journal, leases: Leases, clock: Callable[[], float], interval: float) -> None:
    """End the sessions whose deadline has passed, until cancelled."""
    while True:
        again = True
        while again and journal.lease_holds():
            overdue = leases.begin_expiry()
            ended = await asyncio.gather(*(_expire(journal, leases, session, clock) for session in overdue))
            again = all(ended) and leases.overdue
            await asyncio.sleep(0)
        await asyncio.sleep(interval)


async def _expire(journal: Journal, leases: Leases, session: Session, clock: Callable[[], float]) -> bool:
    """Whether it has ended. An expiry that may yet land is waited for, however long: until then no keepalive may be
    granted.
    """
    try:
        pending = journal.submit(ExpireSession(Attempt(session.id), session.born), clock() + _COMMIT_SECONDS)
        await asyncio.wait((pending.done,))
        pending.done.result()
    except Problem as error:
        log.warning("cannot expire session %s yet: %s", session.id, error)
        leases.expiry_failed(session)
        return False
    leases.forget(session.id)
    return True


async def expire_uploads(journal: Journal, leases: UploadLeases, clock: Callable[[], float], interval: float) -> None:
    """End the uploads whose time is up, until cancelled. What may lie there goes once their end has landed."""
    while True:
        again = True
        while again and journal.lease_holds():
            overdue = leases.begin_expiry()
            ended = await asyncio.gather(*(_expire_upload(journal, leases, *upload, clock) for upload in overdue))
            again = all(ended) and leases.overdue
            await asyncio.sleep(0)
        await asyncio.sleep(interval)


async def _expire_upload(
    journal: Journal, leases: UploadLeases, store: str, upload_id: str, clock: Callable[[], float]
) -> bool:
    """Whether it has ended. An expiry that may yet land is waited for, however long: it is not to be begun a second
    time beside itself.
    """
    try:
        request = ExpireUpload(LEADER, store, upload_id)
        pending = journal.submit(request, clock() + _COMMIT_SECONDS)
        await asyncio.wait((pending.done,))
        decision = pending.done.result().decision
    except Problem as error:
        log.warning("cannot end upload %s in %s yet: %s", upload_id, store, error)
        leases.expiry_failed(store, upload_id)
        return False
    leases.forget(store, upload_id)
    if isinstance(decision, Accepted) and decision.changes:
        log.info("upload %s in %s was not used in time", upload_id, store)
    return True


async def finish_removals(journal: Journal, removals: Removals, clock: Callable[[], float], interval: float) -> None:
    """Finish the removals that a crash or a failed discard left open, until cancelled."""
    while True:
        await asyncio.sleep(interval)
        try:
            after = ""
            while keys := list(islice(journal.read().view.state.removing(after), _BATCH)):
                for after in keys:
                    if (finish := _unfinished(journal.read().view, after)) is not None:
                        await _finish(removals, finish, clock)
                await asyncio.sleep(0)
        except Problem as error:
            log.warning("finishing removals was put off: %s", error)


async def _finish(removals: Removals, finish: FinishNeeded, clock: Callable[[], float]) -> None:
    """One removal whose blob cannot be discarded must not hold up the others."""
    try:
        await removals.finish(finish, clock() + _COMMIT_SECONDS)
    except Problem as error:
        log.warning("the removal of %s/%s was put off: %s", finish.store, finish.name, error)


def _unfinished(view: Lookup, key: str) -> FinishNeeded | None:
    record, located = view.get(key), handle_of(key)
    if located is None or not isinstance(record, Handle) or not record.removing:
        return None
    store = view.store(located[0]) or Store(located[0])
    return None if isinstance(store, Corrupt) or record.born <= store.cleared else finish_of(store, record)


async def scrub(journal: Journal, clock: Callable[[], float], interval: float) -> None:
    """Drop the records that nothing needs any more, until cancelled: each time all of them, however many came
    together since.
    """
    while True:
        await asyncio.sleep(interval)
        try:
            await scrub_all(journal, clock)
        except Problem as error:
            log.warning("scrubbing was put off: %s", error)


async def scrub_all(journal: Journal, clock: Callable[[], float]) -> None:
    """Drop all that may be dropped now. Raises problems."""
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
        await _drop(journal, clock, [key for _, key in batch])
        after = batch[-1]


async def _scrub_cleared(journal: Journal, clock: Callable[[], float]) -> None:
    for store in journal.read().view.state.stores_with_cleared():
        last: list[str] = []
        while keys := _cleared(journal, store):
            if keys == last:
                break  # nothing can be done about these now
            await _drop(journal, clock, keys)
            last = keys


def _cleared(journal: Journal, store: str) -> list[str]:
    state, context = _now(journal)
    return list(islice(state.cleared(store, context.keys_horizon), _BATCH))


def _now(journal: Journal) -> tuple[State, DecisionContext]:
    reading = journal.read()
    return reading.view.state, journal.context(reading.revision)


async def _drop(journal: Journal, clock: Callable[[], float], keys: Sequence[str]) -> None:
    """One commit, and a rest as long as it took: half of the time is for others."""
    began = clock()
    await journal.wait(journal.submit(Scrub(LEADER, keys=tuple(keys)), began + _COMMIT_SECONDS))
    await asyncio.sleep(min(clock() - began, _MOST_REST_SECONDS))
