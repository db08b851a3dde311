"""The registry of a job's completed checkpoints: it adds, removes and recovers them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from contextlib import suppress

from milepost.checkpoints.cleaning import Budget, Cleaner, superfluous
from milepost.checkpoints.records import (
    SAVEPOINT_LABEL,
    Checkpoint,
    Recovery,
    Skipped,
    checkpoint_of,
    name_of,
    number_of,
)
from milepost.core.body import State
from milepost.core.calls.outages import hindrance
from milepost.core.labels import check_labels
from milepost.core.progress import Progress
from milepost.errors import (
    CleanUpLags,
    Closed,
    Damaged,
    LabelsLost,
    NoIntactCheckpoint,
    NotExist,
    OutcomeUnknown,
    SessionLost,
    StateTruncated,
    VersionMismatch,
)
from milepost.store import StateHandleStore
from milepost.types import Handle

log = logging.getLogger("milepost.checkpoints")


class CheckpointRegistry:
    """Keeps the last ``retain`` checkpoints of one job, each as a locked handle ``checkpoint-<number>``.

    One driver uses it, from one thread at a time. It ignores other handles in the same store. It follows Flink's
    DefaultCompletedCheckpointStore, except that a damaged checkpoint is skipped instead of failing the recovery.

    Every method may raise the errors that `StateHandleStore` names. The ``timeout`` of a method is the number of
    seconds for all its requests together; with None each request has the client's timeout. ``progress`` is as in
    `StateHandleStore.add_and_lock` and `StateHandleStore.read`.
    """

    def __init__(self, store: StateHandleStore, retain: int = 1, *, clean_up_limit: int = 10) -> None:
        """Make a registry over ``store``.

        ``clean_up_limit`` is the number of old checkpoints whose removal may be pending before `add` refuses.
        """
        if retain < 1:
            raise ValueError("retain must be 1 or more")
        self._store = store
        self._retain = retain
        self._cleaner = Cleaner(store, clean_up_limit)
        self._checkpoints: list[Checkpoint] = []
        self._damaged: dict[int, tuple[str, str | None]] = {}
        self._running = True

    def __repr__(self) -> str:
        latest = "none" if self.latest is None else f"{len(self._checkpoints)}, the latest is {self.latest.number}"
        return f"<CheckpointRegistry of {self._store.name!r}, checkpoints: {latest}>"

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The retained checkpoints, in numeric order."""
        return list(self._checkpoints)

    @property
    def latest(self) -> Checkpoint | None:
        """The checkpoint with the highest number, or None."""
        return self._checkpoints[-1] if self._checkpoints else None

    def add(
        self,
        number: int,
        state: State,
        savepoint: bool = False,
        labels: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Checkpoint:
        """Add a completed checkpoint, then remove the oldest ones until ``retain`` remain.

        If the checkpoint cannot be added, nothing is removed. The number must be higher than that of the latest
        checkpoint, otherwise this raises ValueError. If an outage prevents a removal, it is tried again with the next
        checkpoint; if too many removals are pending, this raises `CleanUpLags` and adds nothing.

        Raises `Closed` after `shutdown`. Raises `LabelsLost` if the checkpoint was added, but without its labels: a
        savepoint then counts as an ordinary checkpoint, and the next `recover` finds it.
        """
        self._raise_if_down()
        if self.latest is not None and number <= self.latest.number:
            raise ValueError(f"checkpoint {number} is not newer than the latest, {self.latest.number}")
        name = name_of(number)
        budget = Budget(timeout)
        self._cleaner.catch_up(budget)
        self._make_room(number, budget)
        labels = {**(labels or {}), **({SAVEPOINT_LABEL: "true"} if savepoint else {})}
        try:
            try:
                handle = self._store.add_and_lock(name, state, labels, timeout=budget.left, progress=progress)
            except OutcomeUnknown as error:
                handle = self._committed(name, state, error, budget)
                check_labels(handle, labels)
        # the checkpoint is stored and locked without its labels: the registry retains and removes it like any other
        except LabelsLost as lost:
            self._cleaner.forget(name)
            self._checkpoints.append(Checkpoint(number, savepoint, lost.handle))
            raise
        self._cleaner.forget(name)
        checkpoint = Checkpoint(number, savepoint, handle)
        self._checkpoints.append(checkpoint)
        self._subsume(number, budget)
        return checkpoint

    def recover(
        self, *, start_over: bool = False, timeout: float | None = None, progress: Progress | None = None
    ) -> Recovery:
        """Lock every checkpoint in the store and read the newest one that is intact. Raises `Closed` after `shutdown`.

        A damaged checkpoint is skipped with a warning, unlocked, and removed once a checkpoint with its number or a
        higher one is added. An outage is not damage, and is raised. If there are checkpoints but none is intact, this
        raises `NoIntactCheckpoint`, unless ``start_over`` allows the job to begin with nothing.
        """
        self._raise_if_down()
        budget = Budget(timeout)
        candidates, skipped = self._lock_all(budget)
        state = b""
        while candidates:
            try:
                state = self._intact(candidates[-1].handle, budget, progress)
                break
            except (Damaged, NotExist, StateTruncated, VersionMismatch) as error:
                if hindrance(error) is not None:
                    raise
                damaged = candidates.pop()
                handle = damaged.handle
                skipped.append(self._skip(handle.name, damaged.number, handle.version, str(error), budget))
        skipped.sort(key=lambda skip: -skip.number)
        if skipped and not candidates and not start_over:
            reasons = "; ".join(f"checkpoint {skip.number}: {skip.reason}" for skip in skipped)
            raise NoIntactCheckpoint(f"no checkpoint is intact, and the job must not silently start over ({reasons})")
        self._checkpoints = candidates
        for checkpoint in candidates:  # a checkpoint that was due for removal may now be the newest intact one
            self._cleaner.forget(checkpoint.handle.name)
        return Recovery(self.latest, state, self.checkpoints, skipped)

    def shutdown(self, job_ended: bool, *, timeout: float | None = None) -> None:
        """Release the locks on the checkpoints. No checkpoint can be added after this.

        If ``job_ended``, the job will never run again, so all checkpoints are removed, except those that other sessions
        hold. Otherwise all are kept, for the job's next driver. Raises `CleanUpLags` if an outage prevented a removal;
        repeat the call to try again.
        """
        budget = Budget(timeout)
        self._running = False
        if job_ended:
            self._subsume_all(budget)
            if self._cleaner.due:
                raise CleanUpLags(f"these checkpoints could not be removed yet: {', '.join(self._cleaner.due)}")
            return
        try:
            while self._checkpoints:
                self._store.release(self._checkpoints[-1].handle.name, timeout=budget.left)
                self._checkpoints.pop()
        except SessionLost:
            self._checkpoints.clear()  # nothing to release: the locks ended with the session

    def _raise_if_down(self) -> None:
        if not self._running:
            raise Closed("this checkpoint registry was shut down")

    def _lock_all(self, budget: Budget) -> tuple[list[Checkpoint], list[Skipped]]:
        mine = self._store.session_id
        known = self._store.get_all_handles(timeout=budget.left)
        before = {handle.name for handle in known if mine in handle.locks}
        locked = self._store.get_all_and_lock(timeout=budget.left)
        found: list[Checkpoint] = []
        self._damaged = {}
        for handle in locked.handles:
            checkpoint = checkpoint_of(handle)
            if checkpoint is not None:
                found.append(checkpoint)
            elif handle.name not in before:
                self._store.release(handle.name, timeout=budget.left)
        skipped = [
            self._skip(corrupt.name, number, None, corrupt.reason, budget)
            for corrupt in locked.corrupt
            if (number := number_of(corrupt.name)) is not None
        ]
        return sorted(found, key=lambda checkpoint: checkpoint.number), skipped

    def _intact(self, handle: Handle, budget: Budget, progress: Progress | None) -> bytes:
        def read() -> bytes:
            return self._store.read(handle.name, handle.version, timeout=budget.left, progress=progress)

        try:
            state = read()
        except StateTruncated as cut:
            if hindrance(cut) is None:
                raise
            # The first read may have got wrong bytes straight from a blob store; the second goes through the service.
            log.warning("reading checkpoint %s failed, reading it once more: %s", handle.name, cut)
            state = read()
        if (len(state), hashlib.sha256(state).hexdigest()) != (handle.size, handle.sha256):
            raise StateTruncated("the bytes that were read do not match the size and digest in the record")
        return state

    def _skip(self, name: str, number: int, version: str | None, reason: str, budget: Budget) -> Skipped:
        log.warning("checkpoint %d is damaged and was skipped; it stays until a newer one is added: %s", number, reason)
        self._damaged[number] = (name, version)
        self._store.release(name, timeout=budget.left)
        return Skipped(number, reason)

    def _make_room(self, number: int, budget: Budget) -> None:
        """Remove the damaged checkpoint with this number, if there is one, because its handle has the name of the new
        one.

        After a recovery from an earlier checkpoint, a job writes the numbers of damaged checkpoints again.
        """
        if number in self._damaged:
            name, version = self._damaged[number]
            if self._store.release_and_try_remove(name, version, timeout=budget.left).removed:
                del self._damaged[number]

    def _committed(self, name: str, state: State, unknown: OutcomeUnknown, budget: Budget) -> Handle:
        """Return the handle ``name`` if the write that raised ``unknown`` was committed; otherwise raise ``unknown``.

        It was committed if the handle has this state and this session's lock. If there is no such handle, the write may
        still be committed later, so its outcome stays unknown.
        """
        if isinstance(state, bytes):
            with suppress(NotExist):
                handle = self._store.get(name, timeout=budget.left)
                if self._store.session_id in handle.locks and handle.sha256 == hashlib.sha256(state).hexdigest():
                    return handle
        raise unknown from unknown.__cause__

    def _subsume(self, number: int, budget: Budget) -> None:
        for checkpoint in superfluous(self._checkpoints, self._retain):
            self._checkpoints.remove(checkpoint)
            self._cleaner.add(checkpoint.handle.name, checkpoint.handle.version)
        for damaged in [damaged for damaged in self._damaged if damaged < number]:
            self._cleaner.add(*self._damaged.pop(damaged))
        self._cleaner.clean(budget)

    def _subsume_all(self, budget: Budget) -> None:
        for checkpoint in self._checkpoints:
            self._cleaner.add(checkpoint.handle.name, checkpoint.handle.version)
        for name, version in self._damaged.values():
            self._cleaner.add(name, version)
        self._checkpoints.clear()
        self._damaged.clear()
        self._cleaner.clean(budget)
