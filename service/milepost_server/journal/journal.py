"""The journal of a leader: it admits requests, commits them in groups, and answers each request after its commit."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Protocol

import msgspec

from milepost.wire import Code
from milepost_backends.contract import (
    BackendError,
    Change,
    CommitRefused,
    Done,
    Head,
    JournalDamaged,
    Leadership,
    Misconfigured,
    PointerStore,
    StorageUnavailable,
    Unknown,
)
from milepost_server.basics.problems import problem
from milepost_server.journal import loading
from milepost_server.journal.admission import Admission
from milepost_server.journal.attempts import Attempts
from milepost_server.journal.commit.pipeline import Pipeline
from milepost_server.journal.commit.room import GrowthCheck
from milepost_server.journal.events import LatestEvents
from milepost_server.journal.in_doubt.commits import InDoubtCommits
from milepost_server.journal.interface import JournalObserver, JournalSettings, NoObserver
from milepost_server.journal.lease import LeaderLease
from milepost_server.journal.memory import JournalMemory
from milepost_server.journal.pending import Decide, PendingRequest, Served
from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.records import DEPLOYMENT_KEY, Deployment, encode
from milepost_server.model.requests.base import LEADER, Request
from milepost_server.model.requests.sessions import CreateDeployment
from milepost_server.rules.decide import decide as rules_decide
from milepost_server.rules.decisions import Accepted, DecisionContext, Refused

log = logging.getLogger("milepost.journal")


class Reading(msgspec.Struct, frozen=True, gc=False):
    """The committed state at one revision, read while the lease surely held."""

    view: View
    revision: int
    term: int


class Marker(Protocol):
    """The deployment marker: it is stored outside the pointer store, and shows that a deployment was already created on
    this pointer store.

    Without it, a deployment whose records were all lost would silently be created again, as if it were empty.
    """

    async def refuse_to_found(self) -> None:
        """Raise `JournalDamaged` if the marker names a deployment: the caller has found no record of it in the pointer
        store, so the records were lost.

        Raises `StorageUnavailable` if the marker cannot be read.
        """

    async def set(self, deployment: str) -> None:
        """Set the marker for the deployment with the id ``deployment``. Raises `StorageUnavailable`, `StorageFull`."""


class Journal:
    """One journal of a pointer store, which this process leads during each of its leaderships.

    ``clock`` gives monotonic seconds, ``wall`` the time of day as text. ``generation`` counts the leaderships of this
    process; ``first_term`` is the term with which the current leadership began.
    """

    def __init__(
        self,
        name: str,
        store: PointerStore,
        *,
        clock: Callable[[], float],
        wall: Callable[[], str],
        observer: JournalObserver | None = None,
        marker: Marker | None = None,
        settings: JournalSettings | None = None,
        decide: Decide = rules_decide,
        jitter: random.Random | None = None,
    ) -> None:
        self.name = name
        self.attempts = Attempts(clock)
        self.deployment = ""
        self.generation = 0
        self.first_term = 0
        self.unproven: str | None = None
        """The reason why the last take-over could not prove that the stored records are complete, so that this process
        does not lead; None if it could.
        """
        self._store = store
        self._marker = marker
        self._settings = settings = settings or JournalSettings()
        self._decide = GrowthCheck(store).deciding(decide)
        observer = observer or NoObserver()
        self._closing = False
        self._lease = LeaderLease(clock)
        self._memory = JournalMemory(
            name, clock, wall, epoch_floor=settings.epoch_floor, most_uploads=settings.most_uploads
        )
        self._admission = Admission(clock, settings.most_waiting, self.attempts)
        self._pipeline = Pipeline(
            store, self._memory, self._admission, self._lease, observer, self._decide, clock, settings.commit_seconds
        )
        self._in_doubt = InDoubtCommits(
            store,
            self._memory,
            self._pipeline,
            self._admission,
            self._lease,
            observer,
            settings,
            clock,
            jitter or random.Random(),
        )

    # -- properties ------------------------------------------------------------------------------------------------

    @property
    def leading(self) -> bool:
        """Whether this process leads and admits requests."""
        return self._lease.leadership is not None and not self._closing

    @property
    def head(self) -> Head:
        """The head of the journal after the last commit."""
        return self._memory.head

    @property
    def term(self) -> int:
        """The term of the current leadership, or of the last one if this process does not lead."""
        return self._memory.head.term

    @property
    def epoch_floor(self) -> int:
        """Every epoch that this process grants is above this number, which is set after a restore from a backup: epochs
        up to it may have been granted after the backup was made.
        """
        return self._settings.epoch_floor

    @property
    def records(self) -> int:
        """The number of committed records."""
        return len(self._memory.view.state.records)

    @property
    def damaged(self) -> list[str]:
        """The keys of damaged records, sorted.

        A record counts as damaged if its checksum is wrong, so that it is not served, or if it is right in memory but
        could not be written back to the pointer store.
        """
        return self._memory.damaged

    @property
    def groups_committed(self) -> int:
        """The number of groups that this process committed."""
        return self._pipeline.committed

    @property
    def terms_abandoned(self) -> int:
        """The number of terms that this process abandoned in order to resolve in-doubt commits."""
        return self._in_doubt.terms_abandoned

    # -- leadership ------------------------------------------------------------------------------------------------

    async def lead(self, leadership: Leadership) -> None:
        """Take the journal over under the won election ``leadership``, load its records, and begin to admit requests.

        Raises `LeadershipLost`, TimeoutError, and what `PointerStore.take_over` and `PointerStore.load` raise.
        """
        try:
            await self._take_over(leadership)
        except (BackendError, TimeoutError) as error:
            self.unproven = str(error) if isinstance(error, JournalDamaged) else None
            raise
        self.unproven = None

    async def _take_over(self, leadership: Leadership) -> None:
        memory, seconds = self._memory, self._settings.take_over_seconds

        def taken(head: Head) -> None:
            memory.head = head

        loaded = await loading.take_over(
            self._store, self.name, self._lease, leadership, ours=None, taken=taken, seconds=seconds
        )
        loading.verify(loaded, memory.head, self._settings.accepted_losses)
        # after an accepted loss, the records may not be those of the last commit before this leadership
        known_from = memory.head.revision - (0 if self._settings.accepted_losses else 1)
        memory.begin(loaded, memory.head, self._store.limits.journal_bytes, known_from)
        self.deployment = await self._create_deployment()
        memory.name_damage()
        self.generation += 1
        self.first_term = memory.head.term
        self._closing, self._pipeline.fault = False, None
        self._lease.leadership = leadership
        log.info(
            "leading journal %s of deployment %s at term %d, revision %d: requests are admitted from now on",
            self.name,
            self.deployment,
            memory.head.term,
            memory.head.revision,
        )

    async def _create_deployment(self) -> str:
        """Return the id of the deployment, after creating the deployment if the journal has none yet, and making it the
        cell that the settings name. Raises `Misconfigured` if it is another cell.
        """
        memory, settings = self._memory, self._settings
        is_new = memory.view.state.get(DEPLOYMENT_KEY) is None
        request = CreateDeployment(LEADER, secrets.token_hex(6), settings.cell, settings.cells)
        decision = self._decide(View(memory.view.state), request, self.context(memory.head.revision + 1))
        if isinstance(decision, Refused):
            raise Misconfigured(f"the settings name another cell: {decision.detail}")
        assert isinstance(decision, Accepted)
        deployment = str(decision.answer.body["deployment"])
        if decision.changes:
            if is_new and self._marker is not None:
                await self._marker.refuse_to_found()
            made = decision.changes.items()
            changes = [Change(key, encode(key, record)) for key, record in made if record is not None]
            memory.proof.apply(changes)
            revision, digest = memory.head.revision + 1, memory.proof.digest
            async with asyncio.timeout(self._settings.commit_seconds):
                outcome = await self._store.commit(memory.head, changes, revision, digest)
            if not isinstance(outcome, Done):
                raise StorageUnavailable(f"the deployment could not be created: {outcome.detail}")
            memory.head = outcome.head
            memory.events.move(outcome.head.revision)
            memory.view.state.apply(made)
            if is_new and self._marker is not None:
                await self._marker.set(deployment)
        self._name_cell()
        return deployment

    def _name_cell(self) -> None:
        """Log which cell the deployment is, and that it keeps its list of cells if the settings have another one."""
        record, settings = self._memory.view.state.get(DEPLOYMENT_KEY), self._settings
        if not isinstance(record, Deployment) or not record.cell:
            return
        log.info("this deployment is the cell %s of %s", record.cell, ", ".join(record.cells))
        if settings.cell and {*settings.cells} != {*record.cells}:
            log.error(
                "the settings name the cells %s, and lack some: that list is not taken, and jobs begin by the list %s",
                ", ".join(settings.cells),
                ", ".join(record.cells),
            )

    async def run(self) -> None:
        """Commit submitted requests until cancelled. Raises `LeadershipLost` when this process must stop leading."""
        pipeline = self._pipeline
        pipeline.context = copy_context()
        try:
            while True:
                if pipeline.fault is not None:
                    raise pipeline.fault
                if pipeline.flight and type(pipeline.flight[0].outcome) in (CommitRefused, Unknown):
                    pipeline.acknowledge()
                    await self._in_doubt.resolve()
                elif pipeline.may_launch():
                    pipeline.launch()
                    if pipeline.has_answers or pipeline.may_launch():
                        # yield to the event loop, so that the new group is sent before the callers of the previous
                        # group are answered
                        await asyncio.sleep(0)
                        # answer the callers of committed groups before more requests are decided
                        pipeline.acknowledge()
                elif pipeline.has_answers:
                    pipeline.acknowledge()
                else:
                    pipeline.wake.clear()
                    pipeline.resting = True
                    await pipeline.wake.wait()
                    pipeline.resting = False
        finally:
            self.lose_lease()

    async def drain(self) -> None:
        """Stop admitting requests, and wait until all admitted requests have ended."""
        pipeline = self._pipeline
        self._closing = True
        pipeline.hurry()
        pipeline.wake.set()
        while not pipeline.idle or self._in_doubt.pending:
            pipeline.progress.clear()
            await pipeline.progress.wait()
        self._memory.events.finish()

    def lose_lease(self) -> None:
        """End the leadership and every pending request. Idempotent.

        A request that was never sent to the pointer store, or that the pointer store refused, ends as not applied; any
        other ends with outcome unknown.
        """
        self._lease.leadership = None
        self._memory.events.end()
        self._in_doubt.drop()
        self._pipeline.end()
        self._admission.drop(problem(Code.NO_LEADER, "leadership was lost before the write was sent to the storage"))
        self._pipeline.progress.set()

    # -- reading ---------------------------------------------------------------------------------------------------

    def lease_remaining(self) -> float | None:
        """Return for how many more seconds the lease runs: infinite if it ends only with the process, None without a
        lease.
        """
        return self._lease.remaining()

    def leading_for(self) -> float | None:
        """Return for how many seconds this process has led without interruption; None unless the lease surely holds."""
        return self._lease.held_for()

    def lease_holds(self) -> bool:
        """Return whether the lease surely holds, so that answers may be given from memory."""
        return self._lease.holds()

    def read(self) -> Reading:
        """Return the committed state. Raises a ``no-leader`` problem unless the lease surely holds."""
        return Reading(View(self.state()), self._memory.head.revision, self._memory.head.term)

    def state(self) -> State:
        """Return the committed records. Raises a ``no-leader`` problem unless the lease surely holds."""
        if (state := self.state_if_leading()) is None:
            raise problem(Code.NO_LEADER, "this replica does not lead, or its lease is in doubt")
        return state

    def state_if_leading(self) -> State | None:
        """Return the committed records if the lease surely holds, else None."""
        return self._memory.view.state if self._lease.holds() else None

    def events(self) -> LatestEvents:
        """Return the events that were committed under this leadership. Raises a ``no-leader`` problem unless the lease
        surely holds.
        """
        if not self._lease.holds():
            raise problem(Code.NO_LEADER, "this replica does not lead, or its lease is in doubt")
        return self._memory.events

    def context(self, revision: int) -> DecisionContext:
        """Return what the rules may know when they decide the change to ``revision``: the time, limits, and which old
        answers and sessions need not be kept.
        """
        return self._memory.contexts()(revision)

    def revision_before(self, seconds: float) -> int:
        """Return the latest revision that was surely committed at least ``seconds`` ago; 0 if there is none under this
        leadership.
        """
        return self._memory.revision_before(seconds)

    # -- writing ---------------------------------------------------------------------------------------------------

    def submit(self, request: Request, deadline: float, generation: int | None = None) -> PendingRequest:
        """Admit a request and return it as pending; a retry joins the attempt of its key that is still running.

        ``generation`` is the leadership under which the request's blob was put, None for a request without a blob.
        Under another leadership the request is refused, since its blob may have been collected.

        Raises ``no-leader``, ``shutting-down``, ``too-many-requests`` and ``idempotency-mismatch`` problems.
        """
        if (joined := self.attempts.joined(request, deadline)) is not None:
            # check this before any refusal, whose "not applied" would be wrong while an earlier attempt may still be
            # applied
            return joined
        if self._closing:
            raise problem(Code.SHUTTING_DOWN, "this replica is shutting down, or gives the lead to another")
        if self._lease.leadership is None or generation not in (None, self.generation):
            raise problem(Code.NO_LEADER, "this replica does not lead")
        pending = self._admission.admit(request, deadline, self.first_term)
        self._pipeline.arrived()
        return pending

    def wait(self, pending: PendingRequest) -> Awaitable[Served]:
        """Return an awaitable for the end of a submitted request; it ends at the request's deadline at the latest.

        See `Admission.wait` for what it raises.
        """
        return self._admission.wait(pending)
