"""The journal in memory: what is committed, and a view of what will be there once the groups in flight have landed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeGuard

from sortedcontainers import SortedDict

from service.rules.records import (
    Answered,
    Corrupt,
    Handle,
    Record,
    Session,
    Store,
    Upload,
    handle_key,
    handle_of,
    session_key,
    store_key,
    store_of,
    upload_key,
    upload_of,
)

KeyScope = tuple[str, str, str]
"""Store (or the empty string), session, idempotency key."""


class State:
    """Committed records, and the indexes that answers need: handles by name and pending uploads per store, keys by
    scope.
    """

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.sessions: dict[str, Session | Corrupt] = {}
        self._handles: dict[str, SortedDict[str, None]] = {}
        self._stores: SortedDict[str, None] = SortedDict()
        self._uploads: dict[str, dict[str, None]] = {}
        self._answers: dict[KeyScope, str] = {}
        self._damaged: dict[str, None] = {}

    def apply(self, changes: Iterable[tuple[str, Record | None]]) -> None:
        """Take committed changes in."""
        for key, record in changes:
            old = self.records.pop(key, None)
            if isinstance(record, Corrupt):
                self._damaged[key] = None
            elif isinstance(old, Corrupt):
                del self._damaged[key]
            for scope in _scopes(key, old):
                if self._answers.get(scope) == key:
                    del self._answers[scope]
            self._index(key, record)
            if record is None:
                continue
            self.records[key] = record
            for scope in _scopes(key, record):
                self._answers[scope] = key

    def _index(self, key: str, record: Record | None) -> None:
        store = store_of(key)
        if store is None:
            kind, _, name = key.partition("/")
            if kind != "sessions":
                return
            if isinstance(record, Session | Corrupt):
                self.sessions[name] = record
            else:
                self.sessions.pop(name, None)
            return
        located = handle_of(key)
        if located is None:
            if record is not None:
                self._stores[store] = None
            if upload_of(key) is not None:
                pending = self._uploads.setdefault(store, {})
                if is_pending(record):
                    pending[key] = None
                else:
                    pending.pop(key, None)
            return
        names = self._handles.get(store)
        if names is None:
            names = self._handles[store] = SortedDict()
        if record is None:
            names.pop(located[1], None)
        else:
            names[located[1]] = None
            self._stores[store] = None

    def get(self, key: str) -> Record | None:
        """The committed record under ``key``."""
        return self.records.get(key)

    def damaged(self) -> Collection[str]:
        """The keys of the records that cannot be read."""
        return self._damaged.keys()

    def names(self, store: str, after: str = "") -> Iterator[str]:
        """The names under which a store has records, sorted, from the one behind ``after`` on."""
        names = self._handles.get(store)
        return iter(names.irange(after, inclusive=(False, True)) if names else ())

    def stores(self, after: str = "") -> Iterator[str]:
        """The names of the stores, sorted, from the one behind ``after`` on."""
        return iter(self._stores.irange(after, inclusive=(False, True)))

    def pending_uploads(self) -> Iterator[tuple[str, Upload]]:
        """The uploads that are pending, each with its store."""
        for store, keys in self._uploads.items():
            for key in keys:
                upload = self.records[key]
                assert isinstance(upload, Upload)
                yield store, upload

    def count_uploads(self, store: str) -> int:
        """How many uploads are pending in a store."""
        return len(self._uploads.get(store, ()))

    def answered_in(self, scope: KeyScope) -> str | None:
        """The key of the record that keeps the answer of that scope."""
        return self._answers.get(scope)


class _Layer:
    """The changes of one group in flight."""

    def __init__(self, group: int) -> None:
        self.group = group
        self.records: dict[str, Record | None] = {}
        self.answers: dict[KeyScope, str] = {}


class View:
    """Committed state under the changes of the groups in flight, one layer a group.

    ``depends`` is the number of the latest group in flight that was looked at: an answer without changes must wait
    for it, because refusals and reads come from committed state only.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.depends = 0
        self._layers: list[_Layer] = []

    def stage(self, changes: Mapping[str, Record | None], group: int) -> None:
        """Put the changes of a request that joined ``group`` on top."""
        if not self._layers or self._layers[-1].group != group:
            self._layers.append(_Layer(group))
        layer = self._layers[-1]
        for key, record in changes.items():
            layer.records[key] = record
            for scope in _scopes(key, record):
                layer.answers[scope] = key

    def land(self, group: int) -> None:
        """Commit what was staged up to ``group``; later groups stay on top."""
        while self._layers and self._layers[0].group <= group:
            self.state.apply(self._layers.pop(0).records.items())

    def withdraw(self) -> None:
        """Forget all groups in flight: none of them landed."""
        self._layers.clear()

    def get(self, key: str) -> Record | None:
        """The record that will be there."""
        for layer in reversed(self._layers):
            if key in layer.records:
                self.depends = max(self.depends, layer.group)
                return layer.records[key]
        return self.state.records.get(key)

    def session(self, session: str) -> Session | Corrupt | None:
        """A session's record."""
        record = self.get(session_key(session))
        return record if isinstance(record, Session | Corrupt) else None

    def store(self, store: str) -> Store | Corrupt | None:
        """A store's own record."""
        record = self.get(store_key(store))
        return record if isinstance(record, Store | Corrupt) else None

    def handle(self, store: str, name: str) -> Handle | Corrupt | None:
        """A handle's record."""
        record = self.get(handle_key(store, name))
        return record if isinstance(record, Handle | Corrupt) else None

    def upload(self, store: str, upload: str) -> Upload | Corrupt | None:
        """An upload's record."""
        record = self.get(upload_key(store, upload))
        return record if isinstance(record, Upload | Corrupt) else None

    def pending_uploads(self, store: str) -> int:
        """How many uploads a store will have pending."""
        staged: dict[str, Record | None] = {}
        for layer in self._layers:
            found = {key: record for key, record in layer.records.items() if key.startswith(upload_key(store, ""))}
            if found:
                self.depends = max(self.depends, layer.group)
                staged |= found
        more = sum(is_pending(record) - is_pending(self.state.get(key)) for key, record in staged.items())
        return self.state.count_uploads(store) + more

    def names(self, store: str) -> list[str]:
        """The sorted names under which the store will have records."""
        names = set(self.state.names(store))
        for layer in self._layers:
            for key, record in layer.records.items():
                located = handle_of(key)
                if located is not None and located[0] == store:
                    self.depends = max(self.depends, layer.group)
                    (names.discard if record is None else names.add)(located[1])
        return sorted(names)

    def answered(self, scope: KeyScope) -> Answered | None:
        """The first answer under an idempotency key, if it is still kept."""
        staged = (layer.answers[scope] for layer in reversed(self._layers) if scope in layer.answers)
        key = next(staged, None) or self.state.answered_in(scope)
        record = self.get(key) if key else None
        if record is None or isinstance(record, Corrupt):
            return None
        return next((entry for entry in record.answered if (entry.session, entry.key) == scope[1:]), None)


def is_pending(record: Record | None) -> TypeGuard[Upload]:
    """Whether the record is an upload that no handle has taken yet, and whose time is not up."""
    return isinstance(record, Upload) and not record.ended


def _scopes(key: str, record: Record | None) -> Iterator[KeyScope]:
    if record is None or isinstance(record, Corrupt):
        return
    store = store_of(key) or ""
    for entry in record.answered:
        yield (store, entry.session, entry.key)
