"""What a leader does about a group that was refused, or whose outcome is unknown.

It goes on from memory where nothing was written for certain, and under a new term otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from backends.contract import BackendError, CommitRefused, Head, JournalDamaged, PointerStore, Refusal, TakeOverLost
from milepost.wire import Code
from service.basics.problems import problem
from service.journal import loading
from service.journal.admission import Admission
from service.journal.commit import judgement
from service.journal.commit.pipeline import Pipeline
from service.journal.lease import LeaderLease, LeadershipLost, NotTakenOver
from service.journal.memory import JournalMemory
from service.journal.observer import JournalObserver
from service.journal.settings import JournalSettings
from service.journal.settling.restoring import Restoring

log = logging.getLogger("milepost.journal")

T = TypeVar("T")

_REFUSALS: Final = 3
"""So many certain refusals of the store one after another, and it is taken over again: a fresh head may cure it."""


class Settlement:
    """Settles what is in doubt in ``pipeline``, and puts right what a foreign hand changed in the store."""

    def __init__(
        self,
        store: PointerStore,
        memory: JournalMemory,
        pipeline: Pipeline,
        admission: Admission,
        lease: LeaderLease,
        observer: JournalObserver,
        settings: JournalSettings,
        clock: Callable[[], float],
        jitter: random.Random,
    ) -> None:
        self.terms_burnt = 0
        self._store = store
        self._memory = memory
        self._pipeline = pipeline
        self._admission = admission
        self._lease = lease
        self._observer = observer
        self._settings = settings
        self._clock = clock
        self._jitter = jitter
        self._verdict: judgement.Verdict | None = None
        self._give_up_at = 0.0

    @property
    def pending(self) -> bool:
        """Whether groups were judged, and what they left is not put right yet."""
        return self._verdict is not None

    async def resolve(self) -> None:
        """The first group under way did not land, or may not have. Go on from memory if that is certain of all.

        Raises `LeadershipLost`.
        """
        pipeline = self._pipeline
        first = pipeline.flight[0].outcome
        if isinstance(first, CommitRefused) and first.reason is not Refusal.HEAD_MOVED:
            await asyncio.wait([group.task for group in pipeline.flight if group.task is not None])
            pipeline.refusals += first.reason is Refusal.FAILED
            if pipeline.refusals < _REFUSALS and all(
                isinstance(group.outcome, CommitRefused) for group in pipeline.flight
            ):
                await self._go_on(first)
                return
        await self._settle()

    async def _go_on(self, refused: CommitRefused) -> None:
        """Nothing was written, so memory and head are as they were, and no term has to be burnt for it."""
        log.warning("journal %s: nothing was written, and it goes on: %s", self._memory.name, refused.detail)
        self._pipeline.conclude(self._pipeline.judge(0, self._clock()))
        if refused.reason not in (Refusal.FULL, Refusal.TOO_LARGE):
            await self._until_confirmed()

    async def _until_confirmed(self) -> None:
        """Wait until the store answers again, and tells that the head is still of this term."""

        async def confirm() -> bool:
            try:
                async with asyncio.timeout(self._settings.take_over_seconds):
                    return await self._store.confirm(self._memory.head)
            except JournalDamaged as error:
                log.error("somebody changed what is stored of journal %s: %s", self._memory.name, error)
                return False

        if not await self._persistently(confirm, "confirm the head of"):
            await self._settle()

    async def _settle(self) -> None:
        """Burn the term, so that nothing of it can land any more; judge what is in doubt by what is there; put right in
        the store what differs from memory.
        """
        flight, memory = self._pipeline.flight, self._memory
        self.terms_burnt += 1
        self._pipeline.refusals = 0
        log.warning("term %d is burnt: %s", memory.head.term, flight[0].outcome if flight else "the head moved")
        self._pipeline.cancel_commits()
        ours = memory.head

        def taken(head: Head) -> None:
            nonlocal ours
            ours = head

        def moved(head: Head) -> None:
            taken(head)
            self._give_up_at = self._clock() + self._settings.give_up_seconds
            if not self._lease.holds():
                raise LeadershipLost("the lease ran out while records were written back")

        restoring = Restoring(
            self._store, memory.view.state, memory.proof, self._settings.commit_seconds, moved, self._observer
        )

        async def take_over() -> None:
            leadership = self._lease.leadership
            if leadership is None:
                raise LeadershipLost("leadership was given up while a write was in doubt")
            seconds = self._settings.take_over_seconds
            loaded = await loading.take_over(
                self._store, memory.name, self._lease, leadership, ours=ours, taken=taken, seconds=seconds
            )
            if self._verdict is None:
                self._warn_of_the_past(ours)
                count = judgement.landed(self._pipeline.flight, ours, loaded.state)
                self._verdict = self._pipeline.judge(count, self._clock())
            taken(await restoring.restore(ours, loaded))
            self._lease.require(leadership)

        await self._persistently(take_over, "take over")
        verdict, self._verdict = self._verdict, None
        assert verdict is not None
        memory.settle(ours, restoring.unwritten)
        self._pipeline.conclude(verdict)

    async def _persistently(self, act: Callable[[], Awaitable[T]], doing: str) -> T:
        """Return the result of ``act``, which is tried again while the lease holds and the store does not answer.

        Given up once so much time is over since it began or, later, made progress. Raises `LeadershipLost`.
        """
        delay = 0.05
        self._give_up_at = self._clock() + self._settings.give_up_seconds
        while True:
            if not self._lease.holds():
                raise LeadershipLost("the lease ran out while a write was in doubt")
            try:
                return await act()
            except TakeOverLost as error:
                raise LeadershipLost("another process took the journal over") from error
            except (BackendError, TimeoutError) as error:
                self._admission.trouble = error if isinstance(error, BackendError) else None
                log.warning("cannot %s journal %s yet: %s", doing, self._memory.name, error)
                self._give_up_certain()
                if self._clock() >= self._give_up_at:
                    raise NotTakenOver(f"cannot {doing} journal {self._memory.name}: {error!r}") from error
                await asyncio.sleep(delay * (0.5 + self._jitter.random()))
                delay = min(2.0, delay * 2)

    def _give_up_certain(self) -> None:
        """While the store cannot be taken over: a refusal of the store's own is an answer already."""
        flight = self._pipeline.flight
        error = judgement.certain_refusal(flight[0]) if flight else None
        if error is not None:
            for member in (member for group in flight for member in group.members):
                member.pending.fail(error)

    def _warn_of_the_past(self, head: Head) -> None:
        if head.revision <= self._memory.head.revision:
            log.error(
                "journal %s went back from revision %d to %d: somebody put an older copy in its place; what was"
                " acknowledged since is written back from memory",
                self._memory.name,
                self._memory.head.revision,
                head.revision - 1,
            )

    def drop(self) -> None:
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
