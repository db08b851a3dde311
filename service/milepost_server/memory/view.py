"""The view: the records in memory as they will be once the groups in flight have been committed.

A group is in flight from the time it is built until the outcome of its write is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from milepost_server.memory.lookup import Lookup, is_listed, is_pending
from milepost_server.memory.state import State, scopes
from milepost_server.model.answered import Answered
from milepost_server.model.history import page_keys, page_of
from milepost_server.model.paths import is_below, path_key, path_keys
from milepost_server.model.records import Corrupt, Record, Session, Store, handle_key, upload_key
from milepost_server.model.requests.base import KeyScope
from milepost_server.model.trees import TreePath

_MOST_LED = 20


class _Layer:
    """The changes of one group in flight.

    ``records`` has the changed records by key, None for a deletion. ``answers`` maps a request's scope (store, session
    and idempotency key) to the key of the record that keeps the answer.
    """

    __slots__ = ("answers", "group", "records")

    def __init__(self, group: int) -> None:
        self.group = group
        self.records: dict[str, Record | None] = {}
        self.answers: dict[KeyScope, str] = {}


class View(Lookup):
    """The committed records with the changes of the groups in flight on top, one layer for each group.

    ``depends`` is the number of the latest group in flight whose changes were read through this object, 0 for none. A
    decision that read changes of a group is valid only if the group is committed; see `Decision`.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.held = state.held
        self.depends = 0
        self._layers: list[_Layer] = []

    def fresh(self) -> View:
        """Return another view that shares this view's state and layers, now and later, but has its own ``depends``,
        which begins at 0. So it shows which group one decision depends on.
        """
        view = View(self.state)
        view._layers = self._layers
        return view

    def stage(self, changes: Mapping[str, Record | None], group: int) -> None:
        """Add the changes of one request to the layer of ``group``, which must be the newest group."""
        if not self._layers or self._layers[-1].group != group:
            self._layers.append(_Layer(group))
        layer = self._layers[-1]
        for key, record in changes.items():
            layer.records[key] = record
            if record is not None and type(record) is not Corrupt and record.answered:
                for scope in scopes(key, record):
                    layer.answers[scope] = key

    def commit(self, group: int) -> None:
        """Move the changes of all groups up to ``group`` into the committed state. The changes of later groups stay in
        flight.
        """
        while self._layers and self._layers[0].group <= group:
            self.state.apply(self._layers.pop(0).records.items())

    def discard_in_flight(self) -> None:
        """Forget all groups in flight: none of them was committed."""
        self._layers.clear()

    def get(self, key: str) -> Record | None:
        """Return the record that will be under ``key``; None if there will be none."""
        if self._layers:
            for layer in reversed(self._layers):
                if key in layer.records:
                    self.depends = max(self.depends, layer.group)
                    return layer.records[key]
        return self.state.records.get(key)

    def _staged(self, prefix: str) -> dict[str, Record | None]:
        """Return the changes of the groups in flight to keys with this prefix: the new records by key, None for a
        deletion.
        """
        staged: dict[str, Record | None] = {}
        for layer in self._layers:
            found = {key: record for key, record in layer.records.items() if key.startswith(prefix)}
            if found:
                self.depends = max(self.depends, layer.group)
                staged |= found
        return staged

    def pending_uploads(self, store: str) -> int:
        """Return how many pending uploads a store will have."""
        staged = self._staged(upload_key(store, ""))
        more = sum(is_pending(record) - is_pending(self.state.get(key)) for key, record in staged.items())
        return self.state.count_uploads(store) + more

    def count(self, store: Store) -> int:
        """Return how many handles a listing of the store will show. ``store`` is the record that the store will have,
        which states up to which revision handles are cleared.
        """
        staged = self._staged(handle_key(store.name, ""))
        more = sum(
            is_listed(record, store.cleared) - is_listed(self.state.get(key), store.cleared)
            for key, record in staged.items()
        )
        return self.state.count(store.name, store.cleared) + more

    def paths(self, store: str, directory: str) -> Iterator[TreePath]:
        """Yield the records of the paths that will exist below a directory of a tree, in no order.

        Raises `ManifestsNotLoaded`.
        """
        staged = self._staged(path_keys(store))
        for record in staged.values():
            if isinstance(record, TreePath) and is_below(record.path, directory):
                yield record
        for path in self.state.paths(store, directory, manifests=self.manifests(store)):
            if staged.get(path_key(store, path)) is None:
                record = self.path(store, path)
                if isinstance(record, TreePath):
                    yield record

    def times_named(self, store: str, blobs: Collection[str]) -> dict[str, int]:
        """Return for each of these blobs how many records of paths of a store's tree will name it."""
        named = {blob: self.state.times_named(blob) for blob in blobs}
        for key, record in self._staged(path_keys(store)).items() if named else ():
            for one, each in ((1, record), (-1, self.state.get(key))):
                for blob in each.blobs if isinstance(each, TreePath) else ():
                    if blob in named:
                        named[blob] += one
        return named

    def history_pages(self, store: str, log: str) -> list[int]:
        """Return the numbers of the pages that a log of the store's history will have, the oldest first, with those
        that cannot be read.
        """
        numbers = set(self.state.history_pages(store, log))
        for key, record in self._staged(page_keys(store)).items():
            found = page_of(key)
            if found is not None and found[0] == log:
                if record is None:
                    numbers.discard(found[1])
                else:
                    numbers.add(found[1])
        return sorted(numbers)

    def led_by(self, session: Session) -> list[str]:
        """Return the names of the stores whose epoch the session may hold, sorted: those of the committed records, 20
        at most, and those of the groups in flight. The caller must look up each.
        """
        names = set(self.state.session_index.led_by(session, _MOST_LED))
        for layer in self._layers:
            names |= {
                record.name
                for record in layer.records.values()
                if isinstance(record, Store) and record.epoch_session == session.id
            }
        return sorted(names)

    def damaged(self, store: str) -> list[str]:
        """Return the names of handles whose records cannot be read, except for those that a group in flight replaces.

        A record that a group in flight writes can always be read.
        """
        return [name for name in self.state.damaged_in(store) if isinstance(self.handle(store, name), Corrupt)]

    def damaged_path(self, store: str) -> str | None:
        """Return the key of an unreadable record of a path that no group in flight replaces; None if there is none."""
        return next((key for key in self.state.damaged_paths(store) if isinstance(self.get(key), Corrupt)), None)

    def answered(self, scope: KeyScope) -> Answered | None:
        """Return the first answer to the request that ``scope`` identifies; None if there was none, or if it is not
        kept any more.
        """
        key = self.state.answers.get(scope)
        for layer in self._layers:
            key = layer.answers.get(scope, key)
        record = self.get(key) if key else None
        if record is None or type(record) is Corrupt:
            return None
        _, session, idempotency_key = scope
        for kept in record.answered:
            if kept.key == idempotency_key and kept.session == session:
                return kept
        return None
