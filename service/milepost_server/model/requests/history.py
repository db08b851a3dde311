"""Define the request that restores the history of a job from a backup."""

from __future__ import annotations

import msgspec

from milepost_server.model.history import HistoryEntry
from milepost_server.model.requests.base import StoreRequest, fingerprint_of


class RestoreHistory(StoreRequest, frozen=True, gc=False):
    """Restore the history of a job from a backup that was made at the time ``saved``: its ``entries``, the oldest
    first, without revisions. ``source`` is the name of the job in the backup.
    """

    saved: str = ""
    source: str = ""
    entries: tuple[HistoryEntry, ...] = ()

    def fingerprint(self) -> str:
        return fingerprint_of("RestoreHistory", self.saved, self.source, msgspec.json.encode(self.entries))
