"""Decides which checkpoints are no longer needed, and removes them.

If an outage prevents a removal, the removal is tried again later.
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

REMOVAL_SECONDS = 5.0  # the time limit of one removal, which is tried again with the next checkpoint
_PASSING = (*OUTAGES_OR_DOUBT, DiscardFailed, ServerFault)


def superfluous(checkpoints: Sequence[Checkpoint], retain: int) -> list[Checkpoint]:
    """Return those of ``checkpoints`` (in numeric order) to be removed so that ``retain`` remain: the oldest ones, as
    in Flink's CheckpointSubsumeHelper.

    The latest checkpoint stays, and so does the latest one that is not a savepoint. A savepoint belongs to the user,
    who may move or delete it, so it never replaces the job's own last checkpoint. Therefore more than ``retain`` may
    stay.
    """
    own = [checkpoint for checkpoint in checkpoints if not checkpoint.savepoint]
    kept = {checkpoint.number for checkpoint in (*own[-1:], *checkpoints[-1:])}
    removable = [checkpoint for checkpoint in checkpoints if checkpoint.number not in kept]
    return removable[: max(0, len(checkpoints) - retain)]


class Cleaner:
    """Removes the handles of checkpoints that are no longer needed.

    If an outage prevents a removal, or another session holds the handle, the removal is tried again at the next
    clean-up. Each removal names one version, so that a handle added anew under the same name is not removed.
    """

    def __init__(self, store: StateHandleStore, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._due: dict[str, str | None] = {}
        self._held: dict[str, str | None] = {}

    @property
    def due(self) -> list[str]:
        """The names of the handles that are still to be removed, in the order in which they were added."""
        return list(self._due)

    def add(self, name: str, version: str | None) -> None:
        """Let the next `clean` remove the handle ``name``, if it still has this ``version``; None stands for any
        version.
        """
        self._due[name] = version

    def forget(self, name: str) -> None:
        """Do not remove the handle of this name any more."""
        self._due.pop(name, None)
        self._held.pop(name, None)

    def clean(self, budget: Budget) -> None:
        """Try once to remove every due handle, within the time of ``budget``.

        An outage ends the attempt, because it would also fail the other removals.
        """
        for name, version in [*self._held.items(), *self._due.items()]:
            try:
                removal = self._store.release_and_try_remove(name, version, timeout=budget.at_most(REMOVAL_SECONDS))
            except VersionMismatch:
                log.warning("old checkpoint %s is not removed: another client has added a handle of this name", name)
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
        """Clean up if more than ``limit`` handles are still to be removed. Raises `CleanUpLags` if there are still too
        many afterwards.
        """
        if len(self._due) > self._limit:
            self.clean(budget)
        if len(self._due) > self._limit:
            raise CleanUpLags(
                f"{len(self._due)} old checkpoints are still to be removed, more than the {self._limit} allowed"
            )


class Budget:
    """The time for a series of requests: ``timeout`` seconds from now on.

    If ``timeout`` is None, the series has no limit, and each request has the timeout of its client.
    """

    def __init__(self, timeout: float | None = None) -> None:
        self._until = None if timeout is None else monotonic() + timeout

    @property
    def left(self) -> float | None:
        """Seconds that the next request may take; None stands for the timeout of the client."""
        return None if self._until is None else max(0.0, self._until - monotonic())

    def at_most(self, seconds: float) -> float:
        """Return the seconds that remain, but at most ``seconds``: the timeout of a request that has a limit of its
        own.
        """
        left = self.left
        return seconds if left is None else min(seconds, left)
