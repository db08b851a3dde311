"""The drivers of one job under faults: one leads, another one stands by, and who ended is replaced."""

from __future__ import annotations

import logging
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from testbed.spark import Executor, Standalone
from tests.spark.trials.addresses import Address
from tests.spark.trials.members import Member
from tests.spark.trials.plan import (
    DRIVER,
    EXECUTOR,
    FREEZE,
    KILL,
    LEADER,
    ON_DRIVERS,
    ON_EXECUTORS,
    ON_SERVICE,
    RUN,
    STANDBY,
    Plan,
    Round,
)
from tests.spark.trials.served import Watched
from tests.spark.trials.sources import Source
from tests.spark.under_test.process import DEADLINE_SECONDS

SIZE = 2
_FIRST, _LATER = 6, 2
_POLL_SECONDS = 0.2
_ZOMBIES_SECONDS = 10.0
_EXECUTORS = 2
_SIGNALS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "terminate": signal.SIGTERM}
Starting = Callable[[], Member]
_log = logging.getLogger(__name__)


class NotWentOn(AssertionError):
    """A job did not go on, or a driver ended as it may not."""


class Fleet:
    """The drivers of a job, and what they met."""

    def __init__(
        self,
        plan: Plan,
        service: Watched,
        address: Address,
        source: Source,
        query: str,
        start: Starting,
        cluster: Standalone | None,
    ) -> None:
        self.times: list[str] = []
        self.gaps: list[float] = []
        self._plan = plan
        self._service = service
        self._address = address
        self._source = source
        self._query = query
        self._start = start
        self._cluster = cluster
        self._members: list[Member] = []
        self._began = time.monotonic()
        self._committed = -1
        self._disturbed = False
        self._judged: set[str] = set()
        self.ends: Counter[str] = Counter()

    def run(self, fault: Round) -> None:
        """One round: batches flow, the fault comes, and the job goes on; what stood still has come to its end."""
        self.until(self._manned, "there is no leader, or no standby")
        self._source.feed(_FIRST)
        self._until_more("no batch was committed before the fault")
        time.sleep(fault.after)
        began, epoch = time.monotonic(), self.epoch
        self._note(str(fault))
        self._address.disturb()
        undo = self._strike(fault)
        mend = self._strike_service(KILL, LEADER, fault.outage) if fault.outage else _nothing
        self._source.feed(_LATER)
        mend()
        if fault.seconds:
            undo()
        elif fault.whom in ON_DRIVERS or (fault.whom in ON_EXECUTORS and fault.how == FREEZE):
            self.until(lambda: self._taken_over(epoch), f"nobody took over after {fault}")
        self._source.feed(_LATER)  # who was hit may have used up what came before, and rightly so
        self._until_more(f"nobody went on after {fault}")
        self.gaps.append(time.monotonic() - began)
        self._note(f"went on after {fault}, under epoch {self.epoch}")
        if not fault.seconds:
            undo()

    def finish(self, done: Callable[[], bool]) -> None:
        """Wait until it is done, for as long as there are more batches."""
        while not done():
            before = self.committed()
            self.until(lambda: self.committed() > before or done(), "not all of the input was used up")  # noqa: B023

    def until(self, holds: Callable[[], bool], complaint: str) -> None:
        """Wait until something holds. Raises `NotWentOn` when it takes too long, or a driver ended as it may not."""
        until = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            if time.monotonic() > until:
                raise NotWentOn("\n".join([complaint, *(member.told() for member in self._members[-3:])]))
            self._judge()
            if self._members and not self._standbys() and self._leader() is None:
                # Whoever led was away from the service for too long, and whoever stood by was hit: nobody is left.
                self._members.append(self._start())
            self._service.denied()
            time.sleep(_POLL_SECONDS)

    @property
    def epoch(self) -> int:
        """The newest epoch that a driver has told of."""
        return max((member.epoch for member in self._members), default=0)

    def end(self) -> None:
        """Kill all drivers, the standbys first, and their executors, of which some may stand still. Idempotent."""
        for member in sorted(self._members, key=lambda member: member.epoch):
            member.hits.append("kill driver")
            member.send(signal.SIGKILL, DRIVER)
            for executor in self._executors(member):
                with suppress(ProcessLookupError):
                    executor.kill()

    def committed(self) -> int:
        """The last batch that is known to be committed."""
        found = self._service.committed(self._query)
        self._committed = max(self._committed, -1 if found is None else found)
        return self._committed

    def _strike(self, fault: Round) -> Callable[[], None]:
        """Let a fault come; how it is undone."""
        if fault.whom in ON_SERVICE:
            return self._strike_service(fault.how, fault.whom, fault.seconds)
        if fault.whom == STANDBY:
            return self._strike_standby(fault)
        leader = self._leader()
        if leader is None:
            raise NotWentOn("the leader ended by itself:\n" + self._members[-1].told())
        epoch, executors = leader.epoch, self._chosen(fault, leader)
        on_driver = fault.whom if fault.whom in ON_DRIVERS else DRIVER if fault.how == FREEZE else None
        if on_driver is not None:
            leader.hits.append(f"{fault.how} {on_driver}")
        for executor in executors:
            with suppress(ProcessLookupError):
                executor.send(_SIGNALS[fault.how])
        if on_driver is None:
            return _nothing
        leader.send(_SIGNALS[fault.how], on_driver)
        return lambda: self._thaw(fault, leader, epoch, on_driver, executors)

    def _strike_service(self, how: str, whom: str, seconds: float) -> Callable[[], None]:
        self._disturbed = True
        return self._service.strike(how, whom, seconds)

    def _strike_standby(self, fault: Round) -> Callable[[], None]:
        standby = next(member for member in self._standbys() if member.ready)
        standby.hits.append(f"{fault.how} {DRIVER}")
        standby.send(_SIGNALS[fault.how], DRIVER)

        def wake() -> None:
            time.sleep(fault.seconds)
            standby.send(signal.SIGCONT, DRIVER)

        return wake if fault.how == FREEZE else _nothing

    def _chosen(self, fault: Round, leader: Member) -> list[Executor]:
        """One executor of the leader, all, or none, as the fault says."""
        if fault.whom not in ON_EXECUTORS:
            return []
        self.until(lambda: len(self._executors(leader)) == _EXECUTORS, "executors are missing")
        return self._executors(leader)[: 1 if fault.whom == EXECUTOR else None]

    def _thaw(self, fault: Round, leader: Member, epoch: int, whom: str, executors: list[Executor]) -> None:
        """Let go on what stands still, and wait until nothing is left of what ran under the old epoch.

        Executors go on first: a driver that goes on would call them back, or have their tasks done elsewhere.
        """
        if fault.how == FREEZE:
            time.sleep(fault.seconds)
            denied, over = self._service.denied(), time.monotonic() + (_ZOMBIES_SECONDS if executors else 0.0)
            for executor in executors:
                with suppress(ProcessLookupError):
                    executor.send(signal.SIGCONT)
            while time.monotonic() < over and self._service.denied() == denied:
                time.sleep(_POLL_SECONDS)
            leader.send(signal.SIGCONT, whom)
        if not fault.seconds:
            self.until(lambda: leader.over(epoch), f"what was hit by {fault} is still there")

    def _executors(self, member: Member) -> list[Executor]:
        application = member.application
        return [] if application is None or self._cluster is None else self._cluster.executors(application)

    def _leader(self) -> Member | None:
        """The living driver of the newest epoch."""
        newest = max(self._members, key=lambda member: member.epoch, default=None)
        return newest if newest is not None and newest.epoch and newest.fit else None

    def _taken_over(self, epoch: int) -> bool:
        """Whether another driver leads. If the standby led when the fault came, there is none: one is started."""
        if self.epoch == epoch and not self._standbys():
            self._members.append(self._start())
        return self.epoch > epoch

    def _manned(self) -> bool:
        """Whether one leads and another one stands by. Who is missing is started."""
        leader, others = self._leader(), self._standbys()
        for _ in range(SIZE - len(others) - (leader is not None)):
            self._members.append(self._start())
        return leader is not None and any(member.ready for member in others)

    def _standbys(self) -> list[Member]:
        """Who does not lead, and can. A driver in Python that led once ends; a supervisor stands by again."""
        leader, again = self._leader(), self._plan.way == RUN
        return [
            member for member in self._members if member is not leader and member.fit and (again or not member.epoch)
        ]

    def _until_more(self, complaint: str) -> None:
        before = self.committed()
        self.until(lambda: self.committed() > before, complaint)

    def _judge(self) -> None:
        """Whoever has ended did so as one may: nobody by himself, unless the service was away."""
        for member in self._members:
            end = member.end() if member.name not in self._judged else None
            if end is not None:
                self._judged.add(member.name)
                self.ends[end or "in order"] += 1
                if end and not self._disturbed:
                    raise NotWentOn(f"a driver ended with {end}:\n{member.told()}")

    def _note(self, what: str) -> None:
        self.times.append(f"{time.monotonic() - self._began:7.1f} s  {what}")
        _log.info("seed %s: %s", self._plan.seed, self.times[-1].strip())


def _nothing() -> None:
    """There is nothing to undo."""
