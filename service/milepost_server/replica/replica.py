"""A replica: it takes part in the election, leads while it holds the lease, and resigns when it is stopped."""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import (
    BackendError,
    BlobStore,
    Election,
    Leadership,
    Misconfigured,
    PointerStore,
)
from milepost_server.basics.loop_time import LoopTimeBudget
from milepost_server.basics.problems import problem
from milepost_server.basics.waiting import first_of
from milepost_server.basics.worker_pool import WorkerPool
from milepost_server.blobs.collector import collect
from milepost_server.blobs.deletion_queue import DeletionQueue
from milepost_server.blobs.deployment_marker import DeploymentMarker
from milepost_server.blobs.timeouts import BlobsWithTimeout
from milepost_server.journal import Journal, LeadershipLost, NotTakenOver
from milepost_server.memory.state import State
from milepost_server.model.records import DEPLOYMENT_KEY, Deployment
from milepost_server.replica.effects import Changes, Effects
from milepost_server.replica.epoch_queues import EpochQueues
from milepost_server.replica.leases import Leases, UploadLeases
from milepost_server.replica.maintenance import expire_sessions, expire_uploads, finish_removals, scrub
from milepost_server.replica.opening import open_at_last, open_backends
from milepost_server.replica.settings import Settings
from milepost_server.replica.step_down import StepDown, SteppedDown
from milepost_server.replica.submitter import Removals, Submitter
from milepost_server.replica.trees.compaction import Compaction
from milepost_server.replica.trees.manifests import ManifestCheck, Manifests
from milepost_server.replica.trees.trimming import Trimming

log = logging.getLogger("milepost.replica")

LOOKUPS = (sys.executable, "-P", "-m", "milepost.state.processors.lookups")
"""The command of a worker process that decodes files of managed state. Decoding runs in a process of its own, so that a
malicious file can harm only that process.
"""

_LEAN = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
"""The environment of a worker process. With these variables the process uses 75 MiB and reserves little address space,
so that a memory limit can be set for it.
"""
ACTS = (sys.executable, "-P", "-m", "milepost.served_acts")
"""The command of a worker process that performs acts on jobs: the SDK, which knows how, runs there."""
_MOST_WORKERS = 2
_IDLE_SECONDS = 60.0
_BACKOFF_SECONDS = 0.5
_PAUSE_SECONDS = 0.05
"""The pause between the loss of leadership and the next election. It prevents a busy loop if this replica loses each
leadership at once.
"""


class Replica:
    """One replica of the service: its backends, its journal, and the state in its memory while it leads.

    ``advertise`` is the address by which the election names this replica when it leads. ``on_loaded`` is called at each
    take-over, when all records are in memory. ``on_fault`` is called when the replica can never lead again, because of
    a bug or because a backend is misconfigured; in the second case, ``refusal`` is the error.
    """

    def __init__(
        self,
        *,
        pointers: PointerStore,
        election: Election,
        blobs: BlobStore,
        advertise: str,
        settings: Settings,
        clock: Callable[[], float],
        wall: Callable[[], str],
        jitter: random.Random | None = None,
        on_loaded: Callable[[], None] = lambda: None,
    ) -> None:
        self.pointers = pointers
        self.election = election
        self.blobs = BlobsWithTimeout(blobs, settings.blob_seconds)
        self.advertise = advertise
        self.settings = settings
        self.clock = clock
        self.changes = Changes()
        self.epoch_queues = EpochQueues()
        self.loop_time = LoopTimeBudget(clock)
        self.leases = Leases(clock)
        self.uploads = UploadLeases(clock)
        self.deletions = DeletionQueue(self.blobs, clock)
        self.mark = DeploymentMarker(self.blobs, pointers, settings.journal.accepted_losses)
        effects = Effects(self.deletions, self.leases, self.uploads, self.changes, self.epoch_queues, settings)
        self.journal = Journal(
            "root",
            pointers,
            clock=clock,
            wall=wall,
            observer=effects,
            marker=self.mark,
            settings=settings.journal,
            jitter=jitter,
        )
        self.manifest_check = ManifestCheck(self.journal, self.blobs, self.deletions, self.loop_time, clock)
        self.removals = Removals(self.journal, self.deletions)
        self.manifests = Manifests(self.journal, self.blobs)
        self._trimming = Trimming(self.journal, self.manifests, self.loop_time, clock)
        self._compaction = Compaction(
            self.journal, self.blobs, self.manifests, self.deletions, self.loop_time, clock, settings
        )
        self.lookups = WorkerPool(LOOKUPS, most=_MOST_WORKERS, idle_seconds=_IDLE_SECONDS, environment=_LEAN)
        self.acts = WorkerPool(ACTS, most=_MOST_WORKERS, idle_seconds=_IDLE_SECONDS, environment=_LEAN)
        self.submitter = Submitter(
            self.journal, self.removals, self._trimming.make_room, clock, settings.request_seconds
        )
        self.leadership: Leadership | None = None
        self._backends = (self.blobs, self.pointers, self.election)
        self._step_down = StepDown(self._drain, 2 * settings.resign_seconds)
        self._parts: list[asyncio.Task[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._beside: asyncio.Task[None] | None = None
        self._on_loaded = on_loaded
        self.on_fault: Callable[[], None] = lambda: None
        self.refusal: Misconfigured | None = None
        """The error of a backend that answered only after the start, and then was found to be misconfigured."""
        self.beside: Callable[[], Coroutine[Any, Any, None]] | None = None
        """A task that runs beside the election for as long as the replica takes part in it."""

    @property
    def leads(self) -> bool:
        """Whether this replica leads and its lease surely holds, so that it may answer requests."""
        return self.journal.lease_holds()

    async def start(self) -> None:
        """Open the backends and begin to take part in the election. Raises `Misconfigured` for a backend that cannot be
        used.

        A backend that does not answer is tried again without a limit; the replica is not ready until it answers. If the
        backend is then found to be misconfigured, the error is stored as ``refusal``.
        """
        opened = await open_backends(*self._backends)
        self._task = asyncio.create_task(self._run(opened), name="milepost-leader")
        self._task.add_done_callback(self._ended)
        if self.beside is not None:
            self._beside = asyncio.create_task(self.beside(), name="milepost-beside")
            self._beside.add_done_callback(self._ended)

    async def resign(self) -> None:
        """Stop admitting requests, wait for those in flight for ``resign_seconds`` at most, and resign. Idempotent."""
        if self._beside is not None:
            self._beside.cancel()
            await asyncio.wait((self._beside,), timeout=self.settings.resign_seconds)
            self._beside = None
        if self.leadership is not None:
            await self._drain()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
            self._task = None

    async def step_down(self) -> int:
        """Let another replica lead, and continue as a candidate; return the term that has ended.

        The replica waits for requests in flight as in `resign`. Raises ``no-leader`` problems, and ``outcome-unknown``
        if the lease may not have been resigned yet.
        """
        if self.leadership is None:
            raise problem(Code.NO_LEADER, "this replica does not lead")
        log.info("this replica was asked to step down at term %d: it ends what is in flight first", self.journal.term)
        await self._step_down.ask()
        return self.journal.term

    async def _drain(self) -> None:
        """Stop admitting requests, and wait for requests in flight, ``resign_seconds`` at most."""
        try:
            async with asyncio.timeout(self.settings.resign_seconds):
                await self.journal.drain()
        except TimeoutError:
            log.warning(
                "requests are still in flight after %s s: this replica resigns now, and their outcome is unknown",
                self.settings.resign_seconds,
            )

    async def stop(self) -> None:
        """Resign, then close the backends."""
        await self.resign()
        await self.lookups.close()
        await self.acts.close()
        await self.election.close()
        await self.pointers.close()
        await self.blobs.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Let an unexpected exception end the process: a replica that can no longer lead must not appear healthy."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.critical(
                "this replica failed by a fault of its own and cannot lead any more: the process ends", exc_info=fault
            )
            self.on_fault()

    async def _run(self, opened: bool) -> None:
        if not opened:
            try:
                await open_at_last(*self._backends, clock=self.clock)
            except Misconfigured as error:
                self.refusal = error
                self.on_fault()
                return
        while True:
            try:
                leadership = await self.election.campaign()
            except BackendError as error:
                log.warning("cannot take part in the election, trying again in %s s: %s", _BACKOFF_SECONDS, error)
                await asyncio.sleep(_BACKOFF_SECONDS)
                continue
            pause, others_first = _PAUSE_SECONDS, False
            try:
                await self._lead(leadership)
            except NotTakenOver as error:
                pause = self.settings.stand_back_seconds
                log.error(
                    "this replica stands back from the election for %s s so that another can lead: %s", pause, error
                )
            except SteppedDown as error:
                others_first = True
                log.info(
                    "this replica stands back from the election until another leads, for %s s at most: %s",
                    self.settings.step_down_seconds,
                    error,
                )
            except LeadershipLost as error:
                log.warning("this replica does not lead any more, and takes part in the election again: %s", error)
            finally:
                self.leadership = None
                self.journal.lose_lease()
                self.deletions.clear()
                self.blobs.full = None  # only a put can find out that there is room again, and a follower puts no blobs
                self.changes.end()
                self.epoch_queues.end()
                await leadership.resign()
                self._step_down.resigned()
                await self._end_parts()
            if others_first:
                await self._until_another_leads(self.clock() + self.settings.step_down_seconds)
            await asyncio.sleep(pause)

    async def _until_another_leads(self, end: float) -> None:
        """Wait until another replica leads or has led since, until ``end`` at most: there may be no other candidate."""
        while (left := end - self.clock()) > 0:
            try:
                elsewhere = await self.election.leader() not in (None, self.advertise)
                # Only the term shows one that led between two looks at the election; else both would stand back.
                if elsewhere or not await self.pointers.confirm(self.journal.head):
                    return
            except BackendError as error:
                log.info("cannot see whether another replica leads, looking again: %s", error)
            await asyncio.sleep(min(left, _BACKOFF_SECONDS))
        log.warning("no other replica has led within %s s: this one takes part again", self.settings.step_down_seconds)

    async def _take_over(self, leadership: Leadership) -> None:
        """Take the journal over and begin the leases; retry while the lease holds. Raises `LeadershipLost`."""
        give_up = self.clock() + self.settings.journal.give_up_seconds
        while True:
            if leadership.remaining(self.clock()) <= 0:
                raise LeadershipLost("the lease ran out before the journal could be taken over")
            try:
                await self.journal.lead(leadership)
                state = self.journal.state()
                await self._start_leases(state)
                self._on_loaded()
                break
            except (BackendError, TimeoutError) as error:
                log.warning("cannot take the journal over yet: %s", repr(error))
                if self.clock() >= give_up:
                    raise NotTakenOver(f"cannot take the journal over: {error!r}") from error
                await asyncio.sleep(_BACKOFF_SECONDS)
            except Problem as error:
                raise LeadershipLost("the lease ran out while the journal was taken over") from error

    async def _start_leases(self, state: State) -> None:
        """Give each session and pending upload its full time. This happens before any request is committed, so that no
        session or upload expires too early.
        """
        self.leases.clear()
        self.uploads.clear()
        await self.loop_time.each(state.sessions.values(), self.leases.begin)
        await self.loop_time.each(state.pending_uploads(), lambda pending: self.uploads.begin(*pending))

    async def _lead(self, leadership: Leadership) -> None:
        await self._take_over(leadership)
        self._step_down.begin()
        self.leadership = leadership
        await self._first_of(
            self.journal.run(),
            self._until_lost(leadership),
            self._step_down.until_wanted(),
            self.deletions.run(self.settings.deletion_interval_seconds),
            expire_sessions(self.journal, self.leases, self.clock, self.settings.expire_interval_seconds),
            expire_uploads(self.journal, self.uploads, self.clock, self.settings.expire_interval_seconds),
            finish_removals(self.journal, self.removals, self.clock, self.settings.maintenance_interval_seconds),
            scrub(self.journal, self.clock, self.settings.maintenance_interval_seconds),
            self._trimming.run(self.settings.maintenance_interval_seconds),
            self._compaction.run(),
            self._keep_mark(),
            self.manifest_check.run(self.settings.collect_interval_seconds),
            self._collect(),
        )

    async def _first_of(self, *parts: Coroutine[Any, Any, None]) -> None:
        """Run the leader's tasks until the first one ends. Then cancel the others, and raise the error of the first
        one.
        """
        self._parts = [asyncio.ensure_future(part) for part in parts]
        await first_of(self._parts)

    async def _end_parts(self) -> None:
        """Wait ``resign_seconds`` at most until the background tasks of the last leadership have ended: a task may be
        stuck in a call of a storage.
        """
        parts, self._parts = self._parts, []
        if not parts:
            return
        _, stuck = await asyncio.wait(parts, timeout=self.settings.resign_seconds)
        if stuck:
            log.warning(
                "%d background tasks of the last leadership have not ended after %s s: they are left behind",
                len(stuck),
                self.settings.resign_seconds,
            )

    async def _until_lost(self, leadership: Leadership) -> None:
        await leadership.wait_lost()
        raise LeadershipLost("the election was lost")

    async def _keep_mark(self) -> None:
        """Set the deployment marker again at intervals, in case it could not be set or another program removed it."""
        while True:
            pause = self.settings.collect_interval_seconds
            try:
                if isinstance(self.journal.state().get(DEPLOYMENT_KEY), Deployment):
                    await self.mark.set(self.journal.deployment, may_go_on=self.journal.lease_holds)
            except Problem:
                log.info(
                    "the deployment marker is not checked this time, since the lease is in doubt; trying again in %s s",
                    pause,
                )
            except BackendError as error:
                pause = self.settings.maintenance_interval_seconds
                log.warning(
                    "cannot set the deployment marker %s yet, trying again in %s s: %s", self.mark.key, pause, error
                )
            await asyncio.sleep(pause)

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(self.settings.collect_interval_seconds)
            try:
                await collect(
                    self.journal,
                    self.pointers,
                    self.blobs,
                    self.deletions,
                    self.loop_time,
                    older_than=self.settings.collect_after_seconds,
                    may_go_on=self.journal.lease_holds,
                    ready=self.manifests.ready,
                )
            except (Problem, BackendError) as error:
                log.warning(
                    "unused blobs could not be collected, trying again in %s s: %s",
                    self.settings.collect_interval_seconds,
                    error,
                )
