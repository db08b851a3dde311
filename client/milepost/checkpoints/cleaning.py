"""Removing checkpoints that are not needed any more, now or later."""

from __future__ import annotations

import logging

from milepost.core.outages import OUTAGES_OR_DOUBT
from milepost.errors import CleanUpLags, DiscardFailed, ServerFault, VersionMismatch
from milepost.store import StateHandleStore

log = logging.getLogger("milepost")

REMOVAL_SECONDS = 5.0  # what stays undone is tried again with the next checkpoint
_PASSING = (*OUTAGES_OR_DOUBT, DiscardFailed, ServerFault)


class Cleaner:
    """Handles to remove. What an outage prevents stays due; what another session holds is asked after each time.

    A removal is for one version only, so that a handle added anew under the same name is never hit.
    """

    def __init__(self, store: StateHandleStore, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._due: dict[str, str | None] = {}
        self._held: dict[str, str | None] = {}

    @property
    def due(self) -> list[str]:
        """The names of handles whose removal is overdue, oldest first."""
        return list(self._due)

    def add(self, name: str, version: str | None) -> None:
        """Have a handle removed with the next `clean`; without a ``version`` whichever is there."""
        self._due[name] = version

    def forget(self, name: str) -> None:
        """Do not remove what has this name (any more)."""
        self._due.pop(name, None)
        self._held.pop(name, None)

    def clean(self) -> None:
        """Try everything once; an outage ends the try, as the rest would only meet it, too."""
        for name, version in [*self._held.items(), *self._due.items()]:
            try:
                removal = self._store.release_and_try_remove(name, version, timeout=REMOVAL_SECONDS)
            except VersionMismatch:
                log.warning("handle %s was added anew by somebody else and is left alone", name)
                self.forget(name)
            except _PASSING as error:
                log.warning("%d old checkpoints are still to be removed: %s", len(self._due), error)
                return
            else:
                self.forget(name)
                if not removal.removed:
                    log.info("handle %s stays for now, sessions %s hold it", name, ", ".join(removal.locks))
                    self._held[name] = version

    def catch_up(self) -> None:
        """Come within the limit before anything new is added. Raises `CleanUpLags`."""
        if len(self._due) > self._limit:
            self.clean()
        if len(self._due) > self._limit:
            raise CleanUpLags(f"{len(self._due)} old checkpoints are still to be removed, {self._limit} may be")
