"""Decides which checkpoints are no longer needed, and removes them; a removal that an outage prevents is retried
later.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from milepost.checkpoints.records import Checkpoint
from milepost.core.calls.outages import OUTAGES_OR_DOUBT
from milepost.core.clock import monotonic
from milepost.errors import CleanUpLags, DiscardFailed, ServerFault, VersionMismatch
from milepost.store import StateHandleStore

log = logging.getLogger("milepost.checkpoints")

REMOVAL_SECONDS = 5.0  # a removal that takes longer is retried with the next checkpoint
_PASSING = (*OUTAGES_OR_DOUBT, DiscardFailed, ServerFault)


def superfluous(checkpoints: Sequence[Checkpoint], retain: int) -> list[Checkpoint]:
    """Return the oldest of ``checkpoints`` (in numeric order) beyond ``retain``, as Flink's CheckpointSubsumeHelper
    does.

    The latest stays, and so does the latest that is not a savepoint. A savepoint belongs to the user, who may move or
    delete it, so it never replaces the job's own last checkpoint. Therefore more than ``retain`` may stay.
    """
    own = [checkpoint for checkpoint in checkpoints if not checkpoint.savepoint]
    kept = {checkpoint.number for checkpoint in (*own[-1:], *checkpoints[-1:])}
    removable = [checkpoint for checkpoint in checkpoints if checkpoint.number not in kept]
    return removable[: max(0, len(checkpoints) - retain)]


class Cleaner:
    """The handles that are due for removal.

    A removal that an outage prevents stays due. The cleaner tries a handle that another session holds again at each
    clean-up. Each removal names one version, so that a handle added anew under the same name is never removed.
    """

    def __init__(self, store: StateHandleStore, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._due: dict[str, str | None] = {}
        self._held: dict[str, str | None] = {}

    @property
    def due(self) -> list[str]:
        """The names of the handles that are still due for removal, oldest first."""
        return list(self._due)

    def add(self, name: str, version: str | None) -> None:
        """Remove a handle with the next `clean`; without a ``version``, remove whichever version exists."""
        self._due[name] = version

    def forget(self, name: str) -> None:
        """Keep the handle of this name after all."""
        self._due.pop(name, None)
        self._held.pop(name, None)

    def clean(self, budget: Budget) -> None:
        """Try once to remove every due handle, within the time of ``budget``. An outage ends the attempt, because it
        would also fail the other removals.
        """
        for name, version in [*self._held.items(), *self._due.items()]:
            try:
                removal = self._store.release_and_try_remove(name, version, timeout=budget.at_most(REMOVAL_SECONDS))
            except VersionMismatch:
                log.warning("old checkpoint %s is not removed: somebody else has added a handle of this name", name)
                self.forget(name)
            except _PASSING as error:
                log.warning(
                    "%d old checkpoints could not be removed yet, trying again with the next checkpoint: %s",
                    len(self._due),
                    error,
                )
                return
            else:
                self.forget(name)
                if not removal.removed:
                    log.info(
                        "old checkpoint %s is not removed yet: sessions %s hold it", name, ", ".join(removal.locks)
                    )
                    self._held[name] = version

    def catch_up(self, budget: Budget) -> None:
        """Reduce the number of due handles to the limit before a checkpoint is added. Raises `CleanUpLags`."""
        if len(self._due) > self._limit:
            self.clean(budget)
        if len(self._due) > self._limit:
            raise CleanUpLags(
                f"{len(self._due)} old checkpoints are still to be removed, more than the {self._limit} allowed"
            )


class Budget:
    """The time for a series of requests: ``timeout`` seconds, from now on; with None each request has the client's
    timeout.
    """

    def __init__(self, timeout: float | None = None) -> None:
        self._until = None if timeout is None else monotonic() + timeout

    @property
    def left(self) -> float | None:
        """Seconds that the next request may take; None leaves that to the client."""
        return None if self._until is None else max(0.0, self._until - monotonic())

    def at_most(self, seconds: float) -> float:
        """Return the remaining seconds, but at most ``seconds``."""
        left = self.left
        return seconds if left is None else min(seconds, left)
