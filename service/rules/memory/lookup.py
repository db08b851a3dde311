"""Look records up, wherever they come from: committed state, a view of what will be, a snapshot of what was."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeGuard

from service.rules.records import (
    Corrupt,
    Handle,
    Record,
    Session,
    Store,
    Upload,
    handle_key,
    session_key,
    store_key,
    upload_key,
)


class Lookup(ABC):
    """A lookup finds records by key, and each kind by its names."""

    @abstractmethod
    def get(self, key: str) -> Record | None:
        """Return the record under ``key``."""

    def session(self, session: str) -> Session | Corrupt | None:
        """Return a session's record."""
        record = self.get(session_key(session))
        return record if isinstance(record, Session | Corrupt) else None

    def store(self, store: str) -> Store | Corrupt | None:
        """Return a store's own record."""
        record = self.get(store_key(store))
        return record if isinstance(record, Store | Corrupt) else None

    def handle(self, store: str, name: str) -> Handle | Corrupt | None:
        """Return a handle's record."""
        record = self.get(handle_key(store, name))
        return record if isinstance(record, Handle | Corrupt) else None

    def upload(self, store: str, upload: str) -> Upload | Corrupt | None:
        """Return an upload's record."""
        record = self.get(upload_key(store, upload))
        return record if isinstance(record, Upload | Corrupt) else None


def is_pending(record: Record | None) -> TypeGuard[Upload]:
    """Return whether the record is an upload that no handle has taken yet, and whose time is not up."""
    return isinstance(record, Upload) and not record.ended


def is_listed(record: Record | None, cleared: int) -> bool:
    """Return whether a listing shows this record, in a store that was cleared at revision ``cleared``, 0 for never.

    Of a handle that is gone, or was born before the clear, only the answers in its record still matter.
    """
    return isinstance(record, Corrupt) or (isinstance(record, Handle) and not record.gone and record.born > cleared)
