"""Looking records up, wherever they come from: what is committed, what will be, what was at some moment."""

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
    """Records by key, and each kind by its names."""

    @abstractmethod
    def get(self, key: str) -> Record | None:
        """The record under ``key``."""

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


def is_pending(record: Record | None) -> TypeGuard[Upload]:
    """Whether the record is an upload that no handle has taken yet, and whose time is not up."""
    return isinstance(record, Upload) and not record.ended


def is_listed(record: Record | None, cleared: int) -> bool:
    """Whether a handle's record is one that a listing tells of: of what is gone or cleared, only answers are left."""
    return isinstance(record, Corrupt) or (isinstance(record, Handle) and not record.gone and record.born > cleared)
