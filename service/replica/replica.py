"""The role of a replica: it stands in the election, leads while it holds the lease, and resigns when it is told to
stop.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any

from backends.contract import (
    BackendError,
    BlobStore,
    Election,
    Leadership,
    PointerStore,
    StorageUnavailable,
)
from milepost.errors import Problem
from service.basics.slices import Slices
from service.blobs.collector import collect
from service.blobs.deletion_queue import DeletionQueue
from service.blobs.founding import FoundingMark
from service.blobs.timeouts import BlobsWithTimeout
from service.journal import Journal, LeadershipLost, NotTakenOver
from service.replica.campaigns import Campaigns
from service.replica.changes import Changes
from service.replica.effects import Effects
from service.replica.leases import Leases, UploadLeases
from service.replica.removals import Removals
from service.replica.settings import Settings
from service.replica.submitter import Submitter
from service.replica.upkeep import expire_sessions, expire_uploads, finish_removals, scrub
from service.rules.memory.state import State
from service.rules.records import DEPLOYMENT_KEY, Deployment

log = logging.getLogger("milepost.leader")

_BACKOFF_SECONDS = 0.5
_PAUSE_SECONDS = 0.05
"""Before it stands again after a loss, so that an election which is won and lost in one breath does not spin."""


class Replica:
    """One candidate: its journal, its blobs, and what it knows while it leads."""

    def __init__(
        self,
        *,
        pointers: PointerStore,
        election: Election,
        blobs: BlobStore,
        settings: Settings,
        clock: Callable[[], float],
        wall: Callable[[], str],
        jitter: random.Random | None = None,
    ) -> None:
        self.pointers = pointers
        self.election = election
        self.blobs = BlobsWithTimeout(blobs, settings.blob_seconds)
        self.settings = settings
        self.clock = clock
        self.changes = Changes()
        self.campaigns = Campaigns()
        self.slices = Slices(clock)
        self.leases = Leases(clock)
        self.uploads = UploadLeases(clock)
        self.deletions = DeletionQueue(self.blobs, clock)
        self.mark = FoundingMark(self.blobs, pointers, settings.journal.accepted_losses)
        effects = Effects(self.deletions, self.leases, self.uploads, self.changes, self.campaigns, settings)
        self.journal = Journal(
            "root",
            pointers,
            clock=clock,
            wall=wall,
            observer=effects,
            founding=self.mark,
            settings=settings.journal,
            jitter=jitter,
        )
        self.removals = Removals(self.journal, self.deletions)
        self.submitter = Submitter(self.journal, self.removals, clock, settings.request_seconds)
        self.leadership: Leadership | None = None
        self._parts: list[asyncio.Task[None]] = []
        self._task: asyncio.Task[None] | None = None
        self.on_fault: Callable[[], None] = lambda: None

    @property
    def leads(self) -> bool:
        """Whether this replica leads and may answer now."""
        return self.journal.lease_holds()

    async def start(self) -> None:
        """Open the backends and stand in the election. Raises `Misconfigured`.

        What does not answer now is tried again for as long as it takes: this replica is not ready until then.
        """
        opened = await self._open()
        self._task = asyncio.create_task(self._run(opened), name="milepost-leader")
        self._task.add_done_callback(self._ended)

    async def step_down(self) -> None:
        """Admit nothing more, let what is on its way end, and resign. Idempotent."""
        if self.leadership is not None:
            try:
                async with asyncio.timeout(self.settings.resign_seconds):
                    await self.journal.drain()
            except TimeoutError:
                log.warning("requests were still on their way after %s s", self.settings.resign_seconds)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
            self._task = None

    async def stop(self) -> None:
        """Step down and close the backends."""
        await self.step_down()
        await self.election.close()
        await self.pointers.close()
        await self.blobs.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A fault of our own ends the process: a replica that can never lead again must not look alive."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.critical("cannot stand in the election any more", exc_info=fault)
            self.on_fault()

    async def _open(self) -> bool:
        """Open all backends; False if one does not answer yet. Raises what waiting does not help against."""
        try:
            await self.blobs.open()
            await self.pointers.open()
            await self.election.open()
        except StorageUnavailable as error:
            log.warning("cannot open the backends yet: %s", error)
            return False
        return True

    async def _open_at_last(self) -> None:
        while True:
            await asyncio.sleep(_BACKOFF_SECONDS)
            try:
                if await self._open():
                    log.info("the backends are open now")
                    return
            except BackendError as error:
                log.error("cannot open the backends: %s", error)

    async def _run(self, opened: bool) -> None:
        if not opened:
            await self._open_at_last()
        while True:
            try:
                leadership = await self.election.campaign()
            except BackendError as error:
                log.warning("cannot stand in the election yet: %s", error)
                await asyncio.sleep(_BACKOFF_SECONDS)
                continue
            pause = _PAUSE_SECONDS
            try:
                await self._lead(leadership)
            except NotTakenOver as error:
                log.error("lets another replica lead: %s", error)
                pause = self.settings.stand_back_seconds
            except LeadershipLost as error:
                log.warning("does not lead any more: %s", error)
            finally:
                self.leadership = None
                self.journal.retire()
                self.deletions.clear()
                self.blobs.full = None  # whoever leads puts blobs, and can tell
                self.changes.end()
                self.campaigns.end()
                await leadership.resign()
                await self._end_parts()
            await asyncio.sleep(pause)

    async def _take_over(self, leadership: Leadership) -> None:
        """Raises `LeadershipLost`."""
        give_up = self.clock() + self.settings.journal.give_up_seconds
        while True:
            if leadership.remaining(self.clock()) <= 0:
                raise LeadershipLost("the lease ran out before the journal could be taken over")
            try:
                await self.journal.lead(leadership)
                state = self.journal.read().view.state
                await self._start_leases(state)
                _spare_what_was_loaded()
                break
            except (BackendError, TimeoutError) as error:
                log.warning("cannot take the journal over yet: %s", repr(error))
                if self.clock() >= give_up:
                    raise NotTakenOver(f"cannot take the journal over: {error!r}") from error
                await asyncio.sleep(_BACKOFF_SECONDS)
            except Problem as error:
                raise LeadershipLost("the lease ran out while the journal was taken over") from error

    async def _start_leases(self, state: State) -> None:
        """Nothing is committed before this is done, so nothing ends meanwhile."""
        self.leases.clear()
        self.uploads.clear()
        await self.slices.each(state.sessions.values(), self.leases.begin)
        await self.slices.each(state.pending_uploads(), lambda pending: self.uploads.begin(*pending))

    async def _lead(self, leadership: Leadership) -> None:
        await self._take_over(leadership)
        self.leadership = leadership
        await self._first_of(
            self.journal.run(),
            self._until_lost(leadership),
            self.deletions.run(self.settings.deletion_interval_seconds),
            expire_sessions(self.journal, self.leases, self.clock, self.settings.expire_interval_seconds),
            expire_uploads(self.journal, self.uploads, self.clock, self.settings.expire_interval_seconds),
            finish_removals(self.journal, self.removals, self.clock, self.settings.tidy_interval_seconds),
            scrub(self.journal, self.clock, self.settings.tidy_interval_seconds),
            self._keep_mark(),
            self._collect(),
        )

    async def _first_of(self, *parts: Coroutine[Any, Any, None]) -> None:
        """Run all parts until the first ends, which is an error, and raise it; the others are told to end."""
        self._parts = [asyncio.ensure_future(part) for part in parts]
        try:
            done, _ = await asyncio.wait(self._parts, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in self._parts:
                task.cancel()

    async def _end_parts(self) -> None:
        """Wait for the parts of the leadership that is over, but not without end: one may be stuck in its storage."""
        parts, self._parts = self._parts, []
        if not parts:
            return
        _, stuck = await asyncio.wait(parts, timeout=self.settings.resign_seconds)
        if stuck:
            log.warning("%d parts of the last leadership have not ended yet", len(stuck))

    async def _until_lost(self, leadership: Leadership) -> None:
        await leadership.wait_lost()
        raise LeadershipLost("the election was lost")

    async def _keep_mark(self) -> None:
        """A founding mark that could not be set, or that somebody took away, is set again."""
        while True:
            pause = self.settings.collect_interval_seconds
            try:
                if isinstance(self.journal.read().view.state.get(DEPLOYMENT_KEY), Deployment):
                    await self.mark.set(self.journal.deployment, may_go_on=self.journal.lease_holds)
            except Problem:
                log.info("the founding mark is not looked at, for the lease is in doubt")
            except BackendError as error:
                log.warning("cannot set the founding mark %s yet: %s", self.mark.key, error)
                pause = self.settings.tidy_interval_seconds
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
                    self.slices,
                    older_than=self.settings.collect_after_seconds,
                    may_go_on=self.journal.lease_holds,
                )
            except (Problem, BackendError) as error:
                log.warning("collecting was put off: %s", error)


def _spare_what_was_loaded() -> None:
    """Or the garbage collector goes through all of it now and then, for 0.3 s. What is garbage by now, such as what an
    earlier leadership left, is collected before: it would stay for good otherwise.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
