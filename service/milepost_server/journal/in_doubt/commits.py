"""Resolve in-doubt commits: groups that the pointer store refused, or whose outcome is unknown.

If certainly nothing was written, the leader goes on from memory. Otherwise it takes its journal over under a new term.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from milepost.wire import Code
from milepost_backends.contract import (
    BackendError,
    CommitRefused,
    Head,
    JournalDamaged,
    PointerStore,
    Refusal,
    TakeOverLost,
)
from milepost_server.basics.problems import problem
from milepost_server.journal import loading
from milepost_server.journal.admission import Admission
from milepost_server.journal.commit import judgement
from milepost_server.journal.commit.pipeline import Pipeline
from milepost_server.journal.in_doubt.restoring import Restoring
from milepost_server.journal.interface import JournalObserver, JournalSettings
from milepost_server.journal.lease import LeaderLease, LeadershipLost, NotTakenOver
from milepost_server.journal.memory import JournalMemory

log = logging.getLogger("milepost.journal")

T = TypeVar("T")

_REFUSALS: Final = 3
"""After this many failures of the pointer store in a row, each certain to have written nothing, the leader takes the
journal over: the pointer store may accept writes again after a new head.
"""


class InDoubtCommits:
    """Resolves the groups of ``pipeline`` that the pointer store refused, or whose outcome is unknown.

    It also writes back records that another process changed in the pointer store meanwhile. ``terms_abandoned`` counts
    the terms that the leader abandoned in order to resolve groups.
    """

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
        self.terms_abandoned = 0
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
        """Whether it is known which groups were committed, but the pointer store is not repaired yet."""
        return self._verdict is not None

    async def resolve(self) -> None:
        """Resolve the groups in flight, of which the first was refused or has an unknown outcome.

        If the pointer store certainly refused all of them, the leader goes on from memory. Raises `LeadershipLost`.
        """
        pipeline = self._pipeline
        first = pipeline.flight[0].outcome
        if isinstance(first, CommitRefused) and first.reason is not Refusal.HEAD_MOVED:
            await asyncio.wait([group.running for group in pipeline.flight if group.running is not None])
            pipeline.refusals += first.reason is Refusal.FAILED
            if pipeline.refusals < _REFUSALS and all(
                isinstance(group.outcome, CommitRefused) for group in pipeline.flight
            ):
                await self._go_on(first)
                return
        await self._resolve()

    async def _go_on(self, refused: CommitRefused) -> None:
        """Continue from memory under the same term: the pointer store has certainly written nothing, so memory and head
        are still right.
        """
        log.warning(
            "the store refused a commit of journal %s and wrote nothing; this replica goes on leading: %s",
            self._memory.name,
            refused.detail,
        )
        self._pipeline.conclude(self._pipeline.judge(0, self._clock()))
        if refused.reason not in (Refusal.FULL, Refusal.TOO_LARGE):
            await self._until_confirmed()

    async def _until_confirmed(self) -> None:
        """Wait until the pointer store answers again and confirms this leader's head. If it has another head, take the
        journal over and resolve the groups.
        """

        async def confirm() -> bool:
            try:
                async with asyncio.timeout(self._settings.take_over_seconds):
                    return await self._store.confirm(self._memory.head)
            except JournalDamaged as error:
                log.error(
                    "another program changed what is stored of journal %s; this replica takes it over again: %s",
                    self._memory.name,
                    error,
                )
                return False

        if not await self._persistently(confirm, "confirm the head of"):
            await self._resolve()

    async def _resolve(self) -> None:
        """Take the journal over under the next term, find out which groups were committed, and repair the pointer
        store.

        After the take-over, no write of the current term can be committed any more. The records that are stored then
        show which groups were committed. Stored records that differ from memory are overwritten.
        """
        flight, memory = self._pipeline.flight, self._memory
        self.terms_abandoned += 1
        self._pipeline.refusals = 0
        log.warning(
            "term %d of journal %s is abandoned, to resolve its commits; this replica takes the journal over again: %s",
            memory.head.term,
            memory.name,
            flight[0].outcome if flight else "the head moved",
        )
        self._pipeline.cancel_commits()
        ours = memory.head

        def taken(head: Head) -> None:
            nonlocal ours
            ours = head

        def moved(head: Head) -> None:
            taken(head)
            self._give_up_at = self._clock() + self._settings.give_up_seconds
            if not self._lease.holds():
                raise LeadershipLost("the lease ran out while records were being written back")

        restoring = Restoring(
            self._store, memory.view.state, memory.proof, self._settings.commit_seconds, moved, self._observer
        )

        async def take_over() -> None:
            leadership = self._lease.leadership
            if leadership is None:
                raise LeadershipLost("leadership was given up while the outcome of a write was in doubt")
            seconds = self._settings.take_over_seconds
            loaded = await loading.take_over(
                self._store, memory.name, self._lease, leadership, ours=ours, taken=taken, seconds=seconds
            )
            if self._verdict is None:
                self._warn_if_older(ours)
                count = judgement.committed(self._pipeline.flight, ours, loaded.state)
                self._verdict = self._pipeline.judge(count, self._clock())
            taken(await restoring.restore(ours, loaded))
            self._lease.require(leadership)

        await self._persistently(take_over, "take over")
        verdict, self._verdict = self._verdict, None
        assert verdict is not None
        memory.resolve(ours, restoring.unwritten, found=restoring.found)
        self._pipeline.conclude(verdict)

    async def _persistently(self, work: Callable[[], Awaitable[T]], doing: str) -> T:
        """Return the result of ``work``, repeating it while the pointer store does not answer and the lease holds.

        ``doing`` is what ``work`` does to the journal, for the log. Gives up ``give_up_seconds`` after the beginning,
        or after the last progress of ``work`` if that is later. Raises `LeadershipLost`.
        """
        delay = 0.05
        self._give_up_at = self._clock() + self._settings.give_up_seconds
        while True:
            if not self._lease.holds():
                raise LeadershipLost("the lease ran out while the outcome of a write was in doubt")
            try:
                return await work()
            except TakeOverLost as error:
                raise LeadershipLost("another replica took the journal over") from error
            except (BackendError, TimeoutError) as error:
                self._admission.trouble = error if isinstance(error, BackendError) else None
                log.warning("cannot %s journal %s yet, trying again: %s", doing, self._memory.name, error)
                self._give_up_certain()
                if self._clock() >= self._give_up_at:
                    raise NotTakenOver(f"cannot {doing} journal {self._memory.name}: {error!r}") from error
                await asyncio.sleep(delay * (0.5 + self._jitter.random()))
                delay = min(2.0, delay * 2)

    def _give_up_certain(self) -> None:
        """Fail the requests in flight if the pointer store refused the first group although the head had not changed.

        After such a refusal the requests are certainly not applied, so the callers need not wait until the journal is
        taken over.
        """
        flight = self._pipeline.flight
        error = judgement.certain_refusal(flight[0]) if flight else None
        if error is not None:
            for member in (member for group in flight for member in group.members):
                member.pending.fail(error)

    def _warn_if_older(self, head: Head) -> None:
        """Log an error if the head that was taken over is older than the one in memory, which shows that the pointer
        store was replaced by an older copy.
        """
        if head.revision <= self._memory.head.revision:
            log.error(
                "journal %s went back from revision %d to %d: another program put an older copy in its place; the"
                " changes that were acknowledged since are written back from memory",
                self._memory.name,
                self._memory.head.revision,
                head.revision - 1,
            )

    def drop(self) -> None:
        """End requests whose outcome is known but was not reported yet, because leadership was lost before the pointer
        store was repaired.

        Does nothing if there are none.
        """
        verdict, self._verdict = self._verdict, None
        if verdict is None:
            return
        unknown = problem(Code.OUTCOME_UNKNOWN, "leadership was lost while the outcome of the write was being resolved")
        for pending in (member.pending for group in verdict.committed for member in group.members):
            pending.fail(unknown)
        for pending, error in verdict.given_up:
            pending.fail(error)
        self._admission.again(verdict.again)
