"""The stored records: after each group they must say what the contract says, and point to whole blobs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from milepost_backends.contract import BlobMissing
from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.history import ACTS, EPOCH_ENDED, EPOCH_GRANTED, HistoryPage, page_key, page_of
from milepost_server.model.records import Handle, Record, Session, Store, Upload, handle_of, store_of
from milepost_server.rules.answers import epoch_body, epoch_holder, handle_body
from milepost_server.rules.handlers.handles import absent, present
from tests.simulation.callers.model import alike
from tests.simulation.checks.chronicle import Chronicle
from tests.simulation.checks.invariants import Invariant, Violation
from tests.simulation.checks.tree_chronicle import TreeChronicle
from tests.simulation.world.blobs import BlobService
from tests.support.states import is_state


class Inspection:
    """What is committed, read as the service reads it."""

    def __init__(self, chronicle: Chronicle, blobs: BlobService) -> None:
        self.state = State()
        self._chronicle = chronicle
        self._blobs = blobs
        blobs.deleted = self._deleted
        self._named: dict[str, str] = {}
        self._blob_of: dict[str, str] = {}
        self._view = View(self.state)
        self._newest_page: dict[str, int] = {}

    def committed(self, changed: dict[str, Record | None]) -> None:
        """A group has been committed."""
        for key, record in changed.items():
            if record is None:
                self.state.records.pop(key, None)
            else:
                self.state.records[key] = record
            if isinstance(record, HistoryPage) and (page := page_of(key)) is not None and page[0] == ACTS:
                store = store_of(key) or ""
                self._newest_page[store] = max(page[1], self._newest_page.get(store, 0))
        if any(isinstance(record, Store | Session) for record in changed.values()):
            self.inspect(self.state.records | changed)
        else:
            self.inspect(changed)

    def inspect(self, keys: Iterable[str]) -> None:
        """Compare records with the contract."""
        for key in keys:
            located = handle_of(key)
            if located is not None:
                self._inspect_handle(key, *located)
            elif isinstance(store := self.state.get(key), Store):
                expected = self._chronicle.model.epoch_body(store.name)
                if not alike(expected, epoch_body(self._view, store)):
                    raise Violation(Invariant.AS_MODELLED, f"{store} is stored, should be {expected}")
                self._inspect_history(store)

    def _deleted(self, blob: str) -> None:
        if blob in self._named:
            raise Violation(Invariant.BLOB_THERE, f"{blob} was deleted while {self._named[blob]} points to it")

    def left_over(self, trees: TreeChronicle) -> list[str]:
        """What maintenance and the collector have yet to do, or have done wrong."""
        found: list[str] = []
        named, needed = trees.named(), trees.needed()
        for key, record in self.state.records.items():
            if not isinstance(record, Handle | Upload) or not record.blob:
                continue
            named.add(record.blob)
            store = self._view.store(store_of(key) or "")
            if isinstance(record, Handle) and isinstance(store, Store) and not absent(store, record):
                needed.add(record.blob)
                if record.removing:
                    found.append(f"the removal of {key} is not finished")
        there = set(filter(is_state, self._blobs.keys()))
        if unnamed := there - named:
            found.append(f"{len(unnamed)} blobs are there that nothing names, one is {min(unnamed)}")
        if missing := needed - there:
            found.append(f"{len(missing)} blobs are missing that are named, one is {min(missing)}")
        return found

    def _inspect_handle(self, key: str, store_name: str, name: str) -> None:
        record, store = self.state.get(key), self._view.store(store_name)
        expected = self._chronicle.model.handle_body(store_name, name)
        stored = None
        if isinstance(record, Handle):
            assert isinstance(store, Store), f"{key} has no store"
            stored = None if absent(store, record) else handle_body(self._view, store, record)
        if not alike(expected, stored):
            raise Violation(Invariant.AS_MODELLED, f"{key} is stored as {stored}, should be {expected}")
        readable = present(store, record) if isinstance(store, Store) and isinstance(record, Handle) else None
        self._points_to(key, readable)

    def _inspect_history(self, store: Store) -> None:
        """The newest page of acts ends with the epoch that the store's record has, held or ended, and has each entry
        once.
        """
        page = self.state.get(page_key(store.name, ACTS, self._newest_page.get(store.name, 0)))
        entries = page.entries if isinstance(page, HistoryPage) else ()
        positions = [(entry.revision, entry.number) for entry in entries]
        told = [(entry.epoch, entry.kind) for entry in entries if entry.kind in (EPOCH_GRANTED, EPOCH_ENDED)]
        kind = EPOCH_ENDED if epoch_holder(self._view, store) is None else EPOCH_GRANTED
        as_stored = told[-1] == (store.epoch, kind) if told else not store.epoch
        if not as_stored or len(set(told)) < len(told) or positions != sorted(set(positions)):
            raise Violation(Invariant.AS_MODELLED, f"{store} has the history {told}")

    def _points_to(self, key: str, handle: Handle | None) -> None:
        blob, data = (handle.blob, handle.data) if handle else ("", None)
        if data is None and self._blob_of.get(key, "") == blob:
            return
        if (old := self._blob_of.pop(key, None)) is not None:
            del self._named[old]
        if handle is None:
            return
        if data is None:
            try:
                data = self._blobs.get(blob)
            except BlobMissing as error:
                raise Violation(Invariant.BLOB_THERE, f"{key} points to {blob}, which is missing") from error
            self._blob_of[key] = blob
            self._named[blob] = key
        if hashlib.sha256(data).hexdigest() != handle.sha256:
            raise Violation(Invariant.BLOB_THERE, f"{key} points to {blob or 'bytes'}, which is not what it says")
