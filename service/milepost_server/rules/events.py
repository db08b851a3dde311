"""Derive the events of stores from committed changes: compare the records before and after each change.

This is the only place that says which changes are events. It knows nothing of requests: whatever writes a record, the
same difference between two records is the same event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from milepost_server.memory.lookup import Lookup
from milepost_server.memory.state import State
from milepost_server.model.records import (
    Corrupt,
    Handle,
    Record,
    Session,
    Store,
    handle_of,
    session_key,
    store_key,
    store_of,
    tree_key,
)
from milepost_server.model.trees import Tree, TreePath
from milepost_server.rules.decisions import Changes
from milepost_server.rules.handlers.handles import present

MOST_EPOCHS: Final = 1000
"""The most stores for which the end of one session is an event each. Beyond that, `CommittedChanges.events` raises
`TooManyEvents`, so that no step of the event loop grows with the number of stores.
"""

LAST: Final = 2**31
"""The index of the last event of a change in its store. It is greater than that of any other event."""

_encode: Final = msgspec.json.Encoder().encode


class TooManyEvents(Exception):
    """Raised if one change concerns more than `MOST_EPOCHS` stores, so that its events are not listed."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event of a store, made by the change to ``revision``. ``data`` is a JSON object.

    The last event of the change, which is usually the only one, has the index `LAST`; the others count from 0. A client
    that got the last event of a change has all events of its revision.

    Python's garbage collector ignores events (``gc=False``), as it does records.
    """

    revision: int
    index: int
    type: str
    data: bytes

    @property
    def place(self) -> tuple[int, int]:
        """The place of the event in the order of all events of its store."""
        return self.revision, self.index

    @property
    def size(self) -> int:
        """The bytes of the event that grow with its content."""
        return len(self.data)


class CommittedChanges(Lookup):
    """The records before each change of one committed group. ``state`` has the records before the group.

    Call `events` once for each change, in the order of the revisions.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._changed: dict[str, Record | None] = {}

    def get(self, key: str) -> Record | None:
        """Return the record that was under ``key`` before the next change; None if there was none."""
        return self._changed[key] if key in self._changed else self._state.get(key)

    def events(self, changes: Changes, revision: int) -> list[tuple[str, Event]]:
        """Return the events of one change, each with the name of its store. Raises `TooManyEvents`."""
        if self._changes_locks(changes):
            self._changed |= changes
            return []
        found: dict[str, list[tuple[str, bytes]]] = {}
        try:
            for store, type_, data in self._differences(changes, revision):
                found.setdefault(store, []).append((type_, _encode({"revision": revision, **data})))
        finally:
            self._changed |= changes
        return [
            (store, Event(revision, index if index < len(events) - 1 else LAST, *event))
            for store, events in found.items()
            for index, event in enumerate(events)
        ]

    def _changes_locks(self, changes: Changes) -> bool:
        """Return whether one handle is changed alone, and clients see it as before, but for its locks."""
        if len(changes) != 1:
            return False
        ((key, new),) = changes.items()
        if type(new) is not Handle:
            return False
        old = self.get(key)
        return type(old) is Handle and _seen(old) == _seen(new)

    def _differences(self, changes: Changes, revision: int) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        for key, new in changes.items():
            if isinstance(new, TreePath):
                continue
            store = store_of(key)
            if store is None:
                if isinstance(new, Session):
                    yield from self._of_session(self.get(key), new)
            elif (located := handle_of(key)) is not None:
                yield from self._of_handle(*located, new, changes)
            elif key == store_key(store):
                yield from self._of_store(store, new)
            elif key == tree_key(store):
                yield from self._of_tree(store, new, revision)

    def _of_handle(
        self, store: str, name: str, new: Record | None, changes: Changes
    ) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield the event of a handle's record: added, replaced or removed; none if only its locks changed, or if the
        same change clears the whole store.
        """
        own, after = self.store_or_new(store), changes.get(store_key(store))
        if isinstance(after, Store) and after.cleared != own.cleared:
            return
        old = self.handle(store, name)
        was = old if isinstance(old, Corrupt) else present(own, old)
        is_ = present(after if isinstance(after, Store) else own, new if isinstance(new, Handle) else None)
        if is_ is not None and not isinstance(was, Handle):
            yield store, "added", _of(is_)
        elif isinstance(was, Handle) and is_ is not None and was.version != is_.version:
            yield store, "replaced", _of(is_)
        elif was is not None and is_ is None:
            yield store, "removed", _of(was)

    def _of_store(self, store: str, new: Record | None) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        old = self.store_or_new(store)
        if not isinstance(new, Store):
            return
        if new.cleared != old.cleared:
            yield store, "cleared", {}
        if new.epoch != old.epoch:
            yield store, "epoch-granted", {"epoch": new.epoch, "session": new.epoch_session}
        elif new.wish != old.wish and new.wish is not None:
            about = {"epoch": new.wish.epoch, "who": new.wish.who or new.wish.by or None}
            yield store, f"{new.wish.kind}-requested", about
        elif old.stopped is not None and new.wish is None:
            yield store, "started", {}
        elif old.epoch_session is not None and new.epoch_session is None and self._holds(old):
            yield store, "epoch-ended", {"epoch": old.epoch, "session": old.epoch_session, "reason": "resigned"}

    def _of_session(self, old: Record | None, new: Session) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield an event for each store whose epoch was held by a session that ended."""
        if not new.ended or not isinstance(old, Session) or old.ended:
            return
        named = dict.fromkeys(self._state.session_index.led_by(old, MOST_EPOCHS + 1))
        named |= {each.name: None for each in self._changed.values() if isinstance(each, Store)}
        if len(named) > MOST_EPOCHS:
            raise TooManyEvents(f"the session {new.id!r} held the epochs of more than {MOST_EPOCHS} stores")
        for store in named:
            record = self.store_or_new(store)
            if (record.epoch_session, record.epoch_session_created) == (old.id, old.created_revision):
                data = {"epoch": record.epoch, "session": old.id, "reason": "session-ended"}
                yield store, "epoch-ended", data

    def _holds(self, store: Store) -> bool:
        """Return whether the session that a store's record names lived before this change, so that it held the
        epoch.
        """
        session = self.get(session_key(store.epoch_session or ""))
        return isinstance(session, Session) and not session.ended

    def _of_tree(self, store: str, new: Record | None, revision: int) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield the events of the record of a tree. A snapshot that is dropped, because newer ones are kept, is no
        event.
        """
        if not isinstance(new, Tree):
            return
        old = self.tree(store)
        before = old if isinstance(old, Tree) else Tree(store)
        for rollback in new.rollbacks:
            if rollback.at == revision:
                yield store, "rolled-back", {"snapshot": rollback.to}
        for snapshot in new.snapshots:
            if snapshot.revision == revision:
                yield store, "snapshot-taken", {"directory": snapshot.directory, "batch": snapshot.batch}
        were, are = ({each.name: each.revision for each in tree.savepoints} for tree in (before, new))
        for name in were:
            if name not in are:
                yield store, "savepoint-dropped", {"name": name, "snapshot": were[name]}
        for name in are:
            if name not in were:
                yield store, "savepoint-made", {"name": name, "snapshot": are[name]}


def _seen(handle: Handle) -> tuple[object, ...]:
    """Return what decides whether clients see a handle, and in which version."""
    return handle.version, handle.created_revision, handle.removing, handle.gone


def _of(handle: Handle | Corrupt) -> dict[str, Any]:
    """Return the data of an event about a handle; version and epoch are None if its record was damaged."""
    if isinstance(handle, Corrupt):
        return {"name": handle.name, "version": None, "epoch": None}
    return {"name": handle.name, "version": handle.version, "epoch": handle.epoch}
