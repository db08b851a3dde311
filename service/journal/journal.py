"""The journal of a leader: admits requests, commits them in groups, answers after the commit."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from backends.contract import (
    BackendError,
    Change,
    Done,
    Head,
    JournalDamaged,
    Leadership,
    PointerStore,
    Refusal,
    Refused,
    StorageUnavailable,
    TakeOverLost,
    Unknown,
)
from milepost.wire import Code
from service.journal import settling
from service.journal.admission import Admission
from service.journal.batching import AdaptiveBatching
from service.journal.bound import Bound
from service.journal.claims import Claims
from service.journal.groups import Decide, Group, Unchanging, build
from service.journal.pending import PendingRequest, Served
from service.journal.proof import Proof
from service.journal.restoring import Restoring
from service.journal.revision_ages import RevisionAges
from service.journal.room import Room
from service.problems import problem
from service.rules.decide import decide as rules_decide
from service.rules.decisions import Accepted, DecisionContext
from service.rules.records import ENDED_SESSION_SECONDS, KEPT_KEYS_SECONDS, Corrupt, Record, encode
from service.rules.requests import CreateDeployment, Request
from service.rules.state import State, View

log = logging.getLogger("milepost.journal")

Landed = Callable[[Request, Accepted], None]
T = TypeVar("T")

_REFUSALS: Final = 3
"""So many certain refusals of the store one after another, and it is taken over again: a fresh head may cure it."""


class LeadershipLost(Exception):
    """The lease is over, or another leader took the journal: this process does not lead any more."""


class NotTakenOver(LeadershipLost):
    """The lease holds, but the journal could not be taken over for so long that another should try."""


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """Times in seconds. ``most_waiting``: requests that may wait to be submitted. ``epoch_floor``: granted epochs
    are above it. ``most_uploads``: how many a store may have pending. ``give_up_seconds``: how long who holds the lease
    may fail to take the journal over. ``accepted_losses``: names of damages that the owner goes on from.
    """

    commit_seconds: float = 10.0
    take_over_seconds: float = 30.0
    give_up_seconds: float = 30.0
    most_waiting: int = 10_000
    epoch_floor: int = 0
    most_uploads: int = 1000
    accepted_losses: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Reading:
    """Committed state, read while the lease surely holds."""

    view: View
    revision: int
    term: int


class Founding(Protocol):
    """What remembers, elsewhere, that a deployment was founded on these pointers."""

    async def refuse_to_found(self) -> None:
        """Raises `JournalDamaged` if one was, of which nothing is left, `StorageUnavailable`."""

    async def set(self, deployment: str) -> None:
        """Remember this one. Raises `StorageUnavailable`, `StorageFull`."""


class Journal:
    """One journal under one leadership at a time.

    ``clock`` gives monotonic seconds, ``wall`` the time for people to read. ``landed`` is called with each request
    whose changes were committed, before it is answered.
    """

    def __init__(
        self,
        name: str,
        store: PointerStore,
        *,
        clock: Callable[[], float],
        wall: Callable[[], str],
        landed: Landed,
        settings: JournalSettings | None = None,
        decide: Decide = rules_decide,
        jitter: random.Random | None = None,
    ) -> None:
        self.name = name
        self._store = store
        self._clock = clock
        self._wall = wall
        self._on_landed = landed
        self._settings = settings or JournalSettings()
        self._decide = Room(store).deciding(decide)
        self._jitter = jitter or random.Random()
        self._leadership: Leadership | None = None
        self._head = Head(name, 0, 0, "")
        self._view = View(State())
        self._proof = Proof()
        self._bound = Bound(None)
        self._damaged: frozenset[str] = frozenset()
        self._unwritten: set[str] = set()
        self._give_up_at = 0.0
        self._refusals = 0
        self._ages = RevisionAges(ENDED_SESSION_SECONDS)
        self._admission = Admission(clock, self._settings.most_waiting)
        self._flight: list[Group] = []
        self._waiting: list[Unchanging] = []
        self._landed: list[Group] = []
        self._verdict: settling.Verdict | None = None
        self._batching = AdaptiveBatching(lambda: self._wake.set())
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._groups = 0
        self._closing = False
        self._fault: BaseException | None = None
        self.claims = Claims()
        self.deployment = ""
        self.generation = 0
        self.groups_committed = 0
        self.terms_burnt = 0
        self.first_term = 0
        self.on_given_up: Callable[[Request], None] = lambda _: None
        self.on_found: Callable[[str, Record], None] = lambda *_: None
        self.founding: Founding | None = None

    # -- leadership ------------------------------------------------------------------------------------------------

    @property
    def leading(self) -> bool:
        """Whether requests are admitted."""
        return self._leadership is not None and not self._closing

    @property
    def head(self) -> Head:
        """The head after the last commit."""
        return self._head

    @property
    def term(self) -> int:
        """The term of this leadership, or of the last one."""
        return self._head.term

    @property
    def records(self) -> int:
        """How many records are committed."""
        return len(self._view.state.records)

    @property
    def damaged(self) -> list[str]:
        """The keys of records that do not prove themselves, so that they are not served, and of those that could not be
        written back, which are right in memory alone.
        """
        corrupt = (key for key in self._damaged if isinstance(self._view.state.get(key), Corrupt))
        return sorted({*corrupt, *self._unwritten})

    async def lead(self, leadership: Leadership) -> None:
        """Take the journal over and load it.

        Raises `LeadershipLost`, and what `PointerStore.take_over` and `load` raise.
        """

        def taken(head: Head) -> None:
            self._head = head

        loaded = await self._taken_over(leadership, None, taken)
        settling.verify(loaded, self._head, self._settings.accepted_losses)
        self._proof = loaded.proof
        self._bound = Bound(self._store.limits.journal_bytes)
        self._bound.taken = loaded.size
        self._ages = RevisionAges(ENDED_SESSION_SECONDS)
        self._ages.note(self._clock(), self._head.revision)
        self.deployment = await self._create_deployment(loaded.state)
        self._view = View(loaded.state)
        self._unwritten = set()
        self._note_damage()
        self.generation += 1
        self.first_term = self._head.term
        self._closing, self._fault = False, None
        self._leadership = leadership
        head = self._head
        log.info(
            "leading journal %s of deployment %s at term %d, revision %d",
            self.name,
            self.deployment,
            head.term,
            head.revision,
        )

    async def _create_deployment(self, state: State) -> str:
        """The deployment's id, which was given to it now or long ago."""
        request = CreateDeployment(session="", deployment=secrets.token_hex(6))
        decision = self._decide(View(state), request, self.moment(self._head.revision + 1))
        assert isinstance(decision, Accepted)
        if decision.changes:
            if self.founding is not None:
                await self.founding.refuse_to_found()
            made = decision.changes.items()
            changes = [Change(key, encode(key, record)) for key, record in made if record is not None]
            self._proof.apply(changes)
            revision, digest = self._head.revision + 1, self._proof.digest
            async with asyncio.timeout(self._settings.commit_seconds):
                outcome = await self._store.commit(self._head, changes, revision, digest)
            if not isinstance(outcome, Done):
                raise StorageUnavailable(f"the deployment has no id yet: {outcome.detail}")
            self._head = outcome.head
            state.apply(made)
            if self.founding is not None:
                await self.founding.set(str(decision.answer.body["deployment"]))
        return str(decision.answer.body["deployment"])

    async def run(self) -> None:
        """Commit what is submitted until cancelled. Raises `LeadershipLost`."""
        try:
            while True:
                if self._fault is not None:
                    raise self._fault
                if self._flight and isinstance(self._flight[0].outcome, Refused | Unknown):
                    self._acknowledge_landed()
                    await self._resolve()
                elif self._may_launch():
                    self._launch()
                    await asyncio.sleep(0)  # the commit is on its way before those of the last are answered
                elif self._landed:
                    self._acknowledge_landed()
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            self.retire()

    async def drain(self) -> None:
        """Admit nothing more and wait until what is on its way has ended."""
        self._closing = True
        self._batching.give_up()
        self._wake.set()
        while self._admission.queue or self._flight or self._landed or self._verdict is not None:
            self._progress.clear()
            await self._progress.wait()

    def retire(self) -> None:
        """Leadership is over. What was never submitted, or was refused, is not applied; the rest is of unknown outcome.
        Idempotent.
        """
        self._leadership = None
        self._batching.give_up()
        self._acknowledge_landed()
        self._drop_verdict()
        error = settling.without_settling(self._flight)
        for group in self._flight:
            if group.task is not None:
                group.task.cancel()
            for member in group.members:
                member.pending.fail(error)
        self._admission.again([entry.pending for entry in self._waiting])
        self._admission.drop(problem(Code.NO_LEADER, "leadership was lost before the request was submitted"))
        self._flight, self._waiting = [], []
        self._progress.set()

    # -- reading ---------------------------------------------------------------------------------------------------

    def lease_holds(self) -> bool:
        """Whether answers may be given from memory."""
        return self._leadership is not None and self._leadership.remaining(self._clock()) > 0

    def read(self) -> Reading:
        """Committed state. Raises a ``no-leader`` problem unless the lease surely holds."""
        if not self.lease_holds():
            raise problem(Code.NO_LEADER, "this replica does not lead, or its lease is in doubt")
        return Reading(View(self._view.state), self._head.revision, self._head.term)

    def moment(self, revision: int) -> DecisionContext:
        """What a decision may know of now."""
        return self._moments()(revision)

    def _moments(self) -> Callable[[int], DecisionContext]:
        """The same for many decisions that are made at once: they differ in their revision alone."""
        now, lineage, wall = self._clock(), self._head.lineage, self._wall()
        keys_horizon = self._ages.before(now - KEPT_KEYS_SECONDS)
        sessions_horizon = self._ages.before(now - ENDED_SESSION_SECONDS)
        floor, most, landed = self._settings.epoch_floor, self._settings.most_uploads, self._head.revision

        def moment(revision: int) -> DecisionContext:
            return DecisionContext(revision, lineage, wall, keys_horizon, sessions_horizon, floor, most, landed)

        return moment

    # -- writing ---------------------------------------------------------------------------------------------------

    def submit(self, request: Request, deadline: float, generation: int | None = None) -> PendingRequest:
        """Admit a request; a retry joins the attempt under its key that is still running.

        ``generation``: the leadership under which its blob was put; under another one the request is refused.
        """
        if (joined := self._admission.joined(request, deadline)) is not None:
            return joined
        if self._closing:
            raise problem(Code.SHUTTING_DOWN, "this replica is shutting down")
        if not self.leading or generation not in (None, self.generation):
            raise problem(Code.NO_LEADER, "this replica does not lead")
        pending = self._admission.admit(request, deadline, self.first_term)
        self._batching.arrived()
        if self._may_launch():
            self._wake.set()
        return pending

    def wait(self, pending: PendingRequest) -> Awaitable[Served]:
        """The end of a request, at its deadline at the latest: then it is withdrawn, or its outcome is unknown."""
        return self._admission.wait(pending)

    # -- group commit ----------------------------------------------------------------------------------------------

    def _may_launch(self) -> bool:
        if not self._admission.queue or len(self._flight) >= self._store.limits.in_flight:
            return False
        return bool(self._flight) or self._batching.complete()

    def _launch(self) -> None:
        last = self._flight[-1] if self._flight else None
        head = replace(last.head, revision=last.revision, digest=last.digest) if last else self._head
        group = Group(self._groups + 1, head, head.revision)
        limits, queue = self._store.limits, self._admission.queue
        for entry in build(queue, self._view, group, limits, self._decide, self._moments(), self._bound):
            if entry.depends:
                self._waiting.append(entry)
            else:
                self._answer(entry)
        if group.members:
            self._groups = group.number
            group.replaced = self._proof.apply(group.values.items())
            group.digest = self._proof.digest
            self._bound.taken += group.growth
            self._batching.launched()
            self._flight.append(group)
            group.task = asyncio.create_task(self._commit(group))
            group.task.add_done_callback(self._committed)
        self._progress.set()

    async def _commit(self, group: Group) -> None:
        try:
            async with asyncio.timeout(self._settings.commit_seconds):
                group.outcome = await self._store.commit(group.head, group.changes, group.revision, group.digest)
        except TimeoutError:
            group.outcome = Unknown(f"no answer within {self._settings.commit_seconds} s")

    def _committed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._fault = fault
        while self._flight and isinstance(self._flight[0].outcome, Done):
            try:
                self._land(self._flight.pop(0))
            except Exception as fault:
                log.exception("a group that landed could not be taken in: this replica ends")
                self._fault = fault
        self._wake.set()

    def _land(self, group: Group) -> None:
        self._landed.append(group)
        self._take_in(group)
        self._head = replace(self._head, revision=group.revision, digest=group.digest)
        self._refusals = 0
        self._unwritten.difference_update(group.values)
        self._ages.note(self._clock(), group.revision)
        self._admission.trouble = None
        self._batching.landed(len(group.members))
        self._note(group)

    def _take_in(self, group: Group) -> None:
        """Its changes are committed. An inventory tells of what is there now, and of nothing that comes later."""
        self._view.land(group.number)
        for member in group.members:
            if member.accepted.inventory is not None:
                member.accepted.inventory.snapshot = self._view.state.snapshot()

    def _note(self, group: Group) -> None:
        """Its changes are there for every reader; whoever asked for them hears of it a moment later.

        A fault in what is told of it ends `run`, and changes nothing about what has landed.
        """
        self.groups_committed += 1
        for member in group.members:
            try:
                self._on_landed(member.pending.request, member.accepted)
            except Exception as fault:
                log.exception("what follows from a request that landed could not be done: this replica ends")
                self._fault = fault

    def _acknowledge_landed(self) -> None:
        """Answer what has landed, and what had to wait for it."""
        landed, self._landed = self._landed, []
        for group in landed:
            self._acknowledge(group)
            ready = [entry for entry in self._waiting if entry.depends <= group.number]
            self._waiting = [entry for entry in self._waiting if entry.depends > group.number]
            for entry in ready:
                self._answer(entry)
        self._progress.set()

    def _acknowledge(self, group: Group) -> None:
        for member in group.members:
            member.pending.serve(member.accepted, member.revision, self._head.term)

    def _answer(self, entry: Unchanging) -> None:
        """Answer what changes nothing: a read, so only of committed state and under the lease."""
        if self.lease_holds():
            entry.pending.serve(entry.decision, self._head.revision, self._head.term)
        else:
            entry.pending.fail(problem(Code.NO_LEADER, "the lease ran out before the request could be answered"))

    # -- settling --------------------------------------------------------------------------------------------------

    async def _resolve(self) -> None:
        """The first group in flight did not land, or may not have. Go on from memory if that is certain of all."""
        first = self._flight[0].outcome
        if isinstance(first, Refused) and first.reason is not Refusal.HEAD_MOVED:
            await asyncio.wait([group.task for group in self._flight if group.task is not None])
            self._refusals += first.reason is Refusal.FAILED
            if self._refusals < _REFUSALS and all(isinstance(group.outcome, Refused) for group in self._flight):
                await self._go_on(first)
                return
        await self._settle()

    async def _go_on(self, refused: Refused) -> None:
        """Nothing was written, so memory and head are as they were, and no term has to be burnt for it."""
        log.warning("journal %s: nothing was written, and it goes on: %s", self.name, refused.detail)
        verdict = self._judged(0)
        self._conclude(verdict)
        if refused.reason not in (Refusal.FULL, Refusal.TOO_LARGE):
            await self._until_confirmed()

    async def _until_confirmed(self) -> None:
        """Wait until the store answers again, and tells that the head is still of this term."""

        async def confirm() -> bool:
            try:
                async with asyncio.timeout(self._settings.take_over_seconds):
                    return await self._store.confirm(self._head)
            except JournalDamaged as error:
                log.error("somebody changed what is stored of journal %s: %s", self.name, error)
                return False

        if not await self._persistently(confirm, "confirm the head of"):
            await self._settle()

    async def _settle(self) -> None:
        self.terms_burnt += 1
        self._refusals = 0
        log.warning(
            "term %d is burnt: %s", self._head.term, self._flight[0].outcome if self._flight else "the head moved"
        )
        for group in self._flight:
            if group.task is not None:
                group.task.cancel()
        ours = self._head

        def moved(head: Head) -> None:
            nonlocal ours
            ours = head
            self._give_up_at = self._clock() + self._settings.give_up_seconds
            if not self.lease_holds():
                raise LeadershipLost("the lease ran out while records were written back")

        def taken(head: Head) -> None:
            nonlocal ours
            ours = head

        restoring = Restoring(
            self._store, self._view.state, self._proof, self._settings.commit_seconds, moved, self.on_found
        )

        async def take_over() -> None:
            leadership = self._leadership
            if leadership is None:
                raise LeadershipLost("leadership was given up while a write was in doubt")
            loaded = await self._taken_over(leadership, ours, taken)
            if self._verdict is None:
                self._warn_of_the_past(ours)
                self._verdict = self._judged(settling.landed(self._flight, ours, loaded.state))
            taken(await restoring.restore(ours, loaded))
            self._still_leads(leadership)

        await self._persistently(take_over, "take over")
        verdict, self._verdict = self._verdict, None
        assert verdict is not None
        self._head = ours
        self._unwritten = set(restoring.unwritten)
        self._ages.note(self._clock(), ours.revision)
        self._note_damage()
        self._conclude(verdict)

    async def _persistently(self, act: Callable[[], Awaitable[T]], doing: str) -> T:
        """Its result, tried again and again while the lease holds and the store does not answer.

        Given up once so much time is over since it began or, later, made progress. Raises `LeadershipLost`.
        """
        delay = 0.05
        self._give_up_at = self._clock() + self._settings.give_up_seconds
        while True:
            if not self.lease_holds():
                raise LeadershipLost("the lease ran out while a write was in doubt")
            try:
                return await act()
            except TakeOverLost as error:
                raise LeadershipLost("another process took the journal over") from error
            except (BackendError, TimeoutError) as error:
                self._admission.trouble = error if isinstance(error, BackendError) else None
                log.warning("cannot %s journal %s yet: %s", doing, self.name, error)
                self._give_up_certain()
                if self._clock() >= self._give_up_at:
                    raise NotTakenOver(f"cannot {doing} journal {self.name}: {error!r}") from error
                await asyncio.sleep(delay * (0.5 + self._jitter.random()))
                delay = min(2.0, delay * 2)

    async def _taken_over(
        self, leadership: Leadership, ours: Head | None, taken: Callable[[Head], None]
    ) -> settling.Loaded:
        """What stands under the head of the next term; nothing is judged, answered or launched before.

        ``taken`` is told that head before anything else may fail, so that it is never mistaken for a successor's. A
        load may take as long as there is to load, if it gets on: or nobody could ever lead once that is too much.
        """
        seconds, now = self._settings.take_over_seconds, asyncio.get_running_loop().time
        async with asyncio.timeout(seconds) as deadline:

            def gets_on() -> None:
                self._still_leads(leadership)
                deadline.reschedule(now() + seconds)

            head = await self._store.take_over(self.name, ours)
            taken(head)
            gets_on()
            loaded = await settling.load(self._store, head, gets_on)
        self._still_leads(leadership)
        return loaded

    def _still_leads(self, leadership: Leadership) -> None:
        """Whoever paused on the way here may have taken the journal from a successor, which still answers from memory.

        If the lease held at some moment after the take-over, any successor's take-over comes later, and fences all that
        is written under this term. Nothing else is needed.
        """
        if leadership.remaining(self._clock()) <= 0:
            raise LeadershipLost("the lease ran out while the journal was taken over")

    def _give_up_certain(self) -> None:
        """While the store cannot be taken over: a refusal of the store's own is an answer already."""
        error = settling.certain_refusal(self._flight[0]) if self._flight else None
        if error is not None:
            for member in (member for group in self._flight for member in group.members):
                member.pending.fail(error)

    def _warn_of_the_past(self, head: Head) -> None:
        if head.revision <= self._head.revision:
            log.error(
                "journal %s went back from revision %d to %d: somebody put an older copy in its place; what was"
                " acknowledged since is written back from memory",
                self.name,
                self._head.revision,
                head.revision - 1,
            )

    def _judged(self, count: int) -> settling.Verdict:
        """Memory as of the first ``count`` groups in flight, which landed, and what becomes of the requests."""
        verdict = settling.judge(self._flight, count, self._clock())
        for group in reversed(self._flight[count:]):
            self._proof.put_back(group.replaced)
            self._bound.taken -= group.growth
        for group in verdict.landed:
            self._take_in(group)
        self._view.withdraw()
        self._flight = []
        return verdict

    def _drop_verdict(self) -> None:
        """Leadership was lost after the groups were judged, and before what stands in the store was put right."""
        verdict, self._verdict = self._verdict, None
        if verdict is None:
            return
        unknown = problem(Code.OUTCOME_UNKNOWN, "leadership was lost while the write was settled")
        for pending in (member.pending for group in verdict.landed for member in group.members):
            pending.fail(unknown)
        for pending, error in verdict.given_up:
            pending.fail(error)
        self._admission.again(verdict.again)

    def _conclude(self, verdict: settling.Verdict) -> None:
        """Every doubt is settled now: answer, give up or go on."""
        again = [*verdict.again, *(entry.pending for entry in self._waiting)]
        self._waiting, self._admission.trouble = [], None
        self._batching.give_up()
        for group in verdict.landed:
            self._note(group)
            self._acknowledge(group)
        for pending, error in verdict.given_up:
            if pending.abandoned:
                self.on_given_up(pending.request)
            pending.fail(error)
        self._admission.again(again)
        self._progress.set()
        log.info(
            "settled at term %d: %d groups had landed, %d requests go on", self.term, len(verdict.landed), len(again)
        )

    def _note_damage(self) -> None:
        self._damaged = frozenset(self._view.state.damaged())
        for key in self.damaged:
            record = self._view.state.get(key)
            if isinstance(record, Corrupt):
                log.error("the record %s of journal %s is damaged and not served: %s", key, self.name, record.reason)
