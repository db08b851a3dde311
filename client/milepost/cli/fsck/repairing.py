"""Repair what was found, where that is safe: it is looked at anew first, since it may have been mended meanwhile."""

from __future__ import annotations

from typing import Final

from milepost.cli.acting import led
from milepost.cli.fsck.findings import Finding, Repair
from milepost.cli.fsck.looking import newest_of
from milepost.cli.rollback import require_safe, roll_back
from milepost.errors import Damaged, VersionMismatch
from milepost.session import Session
from milepost.store import StateHandleStore

_NO_VERSION: Final = "damaged"
"""No handle has this version, so only a record that cannot be read is removed: it has none to compare."""


class Repairer:
    """Repairs one finding after the other, in the name of a session."""

    def __init__(self, session: Session, *, deep: bool, within: float) -> None:
        self._session = session
        self._deep = deep
        self._within = within

    def repair(self, finding: Finding) -> str:
        """Do what the finding says; return what became of it.

        Nothing is done under a driver: raises `EpochHeld`. Raises the errors of the writes, too.
        """
        store = self._session.store(finding.store)
        if finding.repair is Repair.REMOVE:
            return self._remove(store, finding.name)
        require_safe(store, f"@{finding.revision}")  # before there is an epoch, which a refusal would have raised
        with led(store, 0.0):
            return self._roll_back(store)

    def _remove(self, store: StateHandleStore, name: str) -> str:
        if store.current_epoch().epoch == 0:
            return self._removed(store, name)
        with led(store, 0.0):
            return self._removed(store, name)

    def _removed(self, store: StateHandleStore, name: str) -> str:
        try:
            if store.exists(name) is None:
                return "is gone already"
        except Damaged:
            try:
                store.release_and_try_remove(name, _NO_VERSION)
            except VersionMismatch:
                return "was added anew meanwhile, so it was left alone"
            return "is removed"
        return "can be read again, so it was left alone"

    def _roll_back(self, store: StateHandleStore) -> str:
        """Roll back to the newest whole snapshot or savepoint; looked for under the epoch, so that nobody writes
        any more.
        """
        found = store.files.verify(digests=self._deep, timeout=self._within)
        revision = newest_of(found)
        if found.intact:
            return "are whole by now, so they were left alone"
        if revision is None:
            return "have no whole snapshot any more, so they were left alone"
        before = roll_back(store, revision, f"@{revision}")
        return f"are those of revision {revision} again; what they were is kept as {before}"
