"""Writes entries of a job's history as JSON: as a backup has them, and as a request restores them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime, timezone
from typing import Any, Final

from milepost.job_types import HistoryEntry
from milepost.types import Process
from milepost.wire import MAX_HISTORY_BYTES, MAX_HISTORY_ENTRIES

_OF_ITS_SERVICE: Final = ("revision", "id", "snapshot", "previous", "restored")
"""What an entry says of the service that has it: its place there, and snapshots there."""
_ROOM: Final = 1024
"""The bytes of a request that are not of its entries, at most."""


def document_of(entry: HistoryEntry) -> dict[str, Any]:
    """Return an entry as the service writes it: the members that are set."""
    found = {field.name: getattr(entry, field.name) for field in fields(entry)}
    return {name: _written(value) for name, value in found.items() if value is not None and value is not False}


def restorable(entries: Iterable[HistoryEntry]) -> list[dict[str, Any]]:
    """Return the entries, the oldest first, as a request restores them: the newest that one request may have, without
    what is only true of the service that they come from.
    """
    found: list[dict[str, Any]] = []
    left = MAX_HISTORY_BYTES - _ROOM
    for entry in reversed([each for each in entries if each.at is not None]):
        document = {name: value for name, value in document_of(entry).items() if name not in _OF_ITS_SERVICE}
        left -= len(json.dumps(document).encode()) + 2
        if left < 0 or len(found) == MAX_HISTORY_ENTRIES:
            break
        found.append(document)
    return found[::-1]


def time_text(time: datetime) -> str:
    """Return a time as the service writes it."""
    return time.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, Process):
        return {name: each for name, each in vars(value).items() if each is not None}
    return value
