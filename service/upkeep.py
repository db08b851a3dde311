"""What a leader does beside answering: expire sessions and uploads, finish removals that were cut off, scrub."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import islice

from milepost.errors import Problem
from service.journal import Journal
from service.leases import Leases, UploadLeases
from service.removals import Removals
from service.rules.decisions import Accepted, FinishNeeded, Moment
from service.rules.handles import finish_of
from service.rules.records import Corrupt, Handle, Session, Store, Upload, handle_of, session_key, store_of
from service.rules.requests import ExpireSession, ExpireUpload, Scrub
from service.rules.state import View
from service.rules.stores import droppable
from service.rules.uploads import droppable as upload_droppable

log = logging.getLogger("milepost.upkeep")

_BATCH = 100
_COMMIT_SECONDS = 30.0


async def expire_sessions(journal: Journal, leases: Leases, clock: Callable[[], float], interval: float) -> None:
    """End the sessions whose deadline has passed, until cancelled."""
    while True:
        if journal.lease_holds():
            overdue = leases.begin_expiry()
            await asyncio.gather(*(_expire(journal, leases, session, clock) for session in overdue))
        await asyncio.sleep(interval)


async def _expire(journal: Journal, leases: Leases, session: Session, clock: Callable[[], float]) -> None:
    """An expiry that may yet land is waited for, however long: until then no keepalive may be granted."""
    try:
        ticket = journal.submit(ExpireSession(session=session.id, born=session.born), clock() + _COMMIT_SECONDS)
        await asyncio.wait((ticket.done,))
        ticket.done.result()
        leases.forget(session.id)
    except Problem as error:
        log.warning("cannot expire session %s yet: %s", session.id, error)
        leases.expiry_failed(session)


async def expire_uploads(journal: Journal, leases: UploadLeases, clock: Callable[[], float], interval: float) -> None:
    """End the uploads whose time is up, until cancelled. What may lie there goes once their end has landed."""
    while True:
        if journal.lease_holds():
            overdue = leases.begin_expiry()
            await asyncio.gather(*(_expire_upload(journal, leases, *upload, clock) for upload in overdue))
        await asyncio.sleep(interval)


async def _expire_upload(
    journal: Journal, leases: UploadLeases, store: str, upload_id: str, clock: Callable[[], float]
) -> None:
    """An expiry that may yet land is waited for, however long: it is not to be begun a second time beside itself."""
    try:
        request = ExpireUpload(session="", store_name=store, upload=upload_id)
        ticket = journal.submit(request, clock() + _COMMIT_SECONDS)
        await asyncio.wait((ticket.done,))
        decision = ticket.done.result().decision
    except Problem as error:
        log.warning("cannot end upload %s in %s yet: %s", upload_id, store, error)
        leases.expiry_failed(store, upload_id)
        return
    leases.forget(store, upload_id)
    if isinstance(decision, Accepted) and decision.changes:
        log.info("upload %s in %s was not used in time", upload_id, store)


async def tidy(journal: Journal, removals: Removals, clock: Callable[[], float], interval: float) -> None:
    """Finish removals that a crash or a failed discard left open, and drop records that nothing needs, until
    cancelled.
    """
    while True:
        await asyncio.sleep(interval)
        try:
            for finish in _unfinished(journal.read().view):
                await _finish(removals, finish, clock)
            reading = journal.read()
            for store, keys in _droppable(reading.view, journal.moment(reading.revision)).items():
                request = Scrub(session="", store_name=store, keys=keys)
                await journal.wait(journal.submit(request, clock() + _COMMIT_SECONDS))
        except Problem as error:
            log.warning("upkeep was put off: %s", error)


async def _finish(removals: Removals, finish: FinishNeeded, clock: Callable[[], float]) -> None:
    """One removal whose blob cannot be discarded must not hold up the others."""
    try:
        await removals.finish(finish, clock() + _COMMIT_SECONDS)
    except Problem as error:
        log.warning("the removal of %s/%s was put off: %s", finish.store, finish.name, error)


def _unfinished(view: View) -> list[FinishNeeded]:
    return [
        finish_of(store, record) for store, record in _handles(view) if record.removing and record.born > store.cleared
    ]


def _droppable(view: View, moment: Moment) -> dict[str, tuple[str, ...]]:
    """Up to a batch of keys per store; those of sessions stand under the empty name."""
    found: dict[str, list[str]] = {}
    for key, record in view.state.records.items():
        located = handle_of(key)
        if located is not None and isinstance(record, Handle):
            store = view.store(located[0])
            if isinstance(store, Store) and droppable(store, record, moment):
                found.setdefault(located[0], []).append(key)
        elif isinstance(record, Session) and 0 < record.ended <= moment.sessions_horizon:
            found.setdefault("", []).append(session_key(record.id))
        elif isinstance(record, Upload) and upload_droppable(record, moment):
            found.setdefault(store_of(key) or "", []).append(key)
    return {store: tuple(islice(keys, _BATCH)) for store, keys in found.items()}


def _handles(view: View) -> Iterator[tuple[Store, Handle]]:
    for key, record in view.state.records.items():
        located = handle_of(key)
        if located is not None and isinstance(record, Handle):
            store = view.store(located[0])
            if not isinstance(store, Corrupt):
                yield store or Store(located[0]), record
