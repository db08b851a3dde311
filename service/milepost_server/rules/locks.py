"""Determine which sessions hold a handle, by the locks in its record and by locks on the whole store. Locks of ended
sessions do not count.
"""

from __future__ import annotations

from msgspec.structs import replace

from milepost_server.memory.lookup import Lookup
from milepost_server.model.records import Handle, Lock, Session, Store
from milepost_server.rules.guards import alive


def holders(view: Lookup, store: Store, handle: Handle) -> tuple[str, ...]:
    """Return the sessions that hold the handle, sorted."""
    if handle.removing or handle.gone or handle.created_revision <= store.cleared:
        return ()
    locks = (*handle.locks, *_through_store(store, handle)) if store.locked else handle.locks
    held = [
        lock.session
        for lock in locks
        if not (store.released and _released_since(store, lock)) and alive(view, lock.session, lock.created_revision)
    ]
    return tuple(held) if len(held) < 2 else tuple(sorted(set(held)))


def taken(view: Lookup, handle: Handle, session: Session, revision: int) -> tuple[Lock, ...]:
    """Return the locks for the handle's own record after ``session`` takes one at ``revision``. Locks of ended sessions
    are left out.
    """
    lock = Lock(session.id, session.created_revision, revision)
    return (*_living(view, handle.locks, without=session.id), lock)


def given_back(view: Lookup, store: Store, handle: Handle, session: Session, revision: int) -> Handle:
    """Return the handle's record, as changed at ``revision``, after ``session`` released the handle: neither a lock in
    this record nor the session's lock on the whole store holds the handle any more.
    """
    bare = replace(
        handle,
        locks=_living(view, handle.locks, without=session.id),
        freed=_living(view, handle.freed, without=session.id),
        changed=revision,
    )
    if store.locked and any(lock.session == session.id for lock in _through_store(store, bare)):
        return replace(bare, freed=(*bare.freed, Lock(session.id, session.created_revision, revision)))
    return bare


def with_all_locked(view: Lookup, store: Store, session: Session, revision: int) -> tuple[Lock, ...]:
    """Return the locks on the whole store (`Store.locked`) after ``session`` locked every handle that exists at
    ``revision``.
    """
    return (*_living(view, store.locked, without=session.id), Lock(session.id, session.created_revision, revision))


def with_all_released(view: Lookup, store: Store, session: Session, revision: int) -> tuple[Lock, ...]:
    """Return the releases for the whole store (`Store.released`) after ``session`` released all its locks at
    ``revision``.
    """
    return (*_living(view, store.released, without=session.id), Lock(session.id, session.created_revision, revision))


def living(view: Lookup, locks: tuple[Lock, ...]) -> tuple[Lock, ...]:
    """Return those of the locks whose sessions are alive. Locks of ended sessions stay in a record until it is written
    the next time.
    """
    return _living(view, locks, without=None)


def _through_store(store: Store, handle: Handle) -> list[Lock]:
    """Return the locks that the handle has because a session locked every handle of the store."""
    return [
        lock
        for lock in store.locked
        if handle.created_revision <= lock.at
        and not any(
            free.session == lock.session and free.created_revision == lock.created_revision and free.at >= lock.at
            for free in handle.freed
        )
    ]


def _released_since(store: Store, lock: Lock) -> bool:
    return any(
        release.session == lock.session and release.created_revision == lock.created_revision and release.at >= lock.at
        for release in store.released
    )


def _living(view: Lookup, locks: tuple[Lock, ...], without: str | None) -> tuple[Lock, ...]:
    if not locks:
        return ()
    return tuple(
        [lock for lock in locks if lock.session != without and alive(view, lock.session, lock.created_revision)]
    )
