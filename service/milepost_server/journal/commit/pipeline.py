"""The commit pipeline: it sends admitted requests to the pointer store in groups, and answers each after its commit.

Several groups may be in flight at once, if the pointer store allows it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from typing import Final

from msgspec.structs import replace

from milepost.wire import Code
from milepost_backends.contract import Done, PointerStore
from milepost_server.basics.alarm import Alarm
from milepost_server.basics.problems import problem
from milepost_server.journal.admission import Admission
from milepost_server.journal.commit.batching import AdaptiveBatching
from milepost_server.journal.commit.groups import Group, NoOpRequest, build
from milepost_server.journal.commit.judgement import Verdict, judge, without_resolving
from milepost_server.journal.interface import JournalObserver
from milepost_server.journal.lease import LeaderLease
from milepost_server.journal.memory import JournalMemory
from milepost_server.journal.pending import Decide

log = logging.getLogger("milepost.journal")

_MOST_DELAY_SECONDS: Final = 1.0


class Pipeline:
    """The groups in flight, in the order of their commits, and the requests that wait for these groups.

    ``wake`` is an event that is set when the pipeline has work to do, ``progress`` one that is set after each piece of
    work. ``resting`` is whether `Journal.run` waits for ``wake``, so that a request that comes in may be sent without
    it, in its ``context``. ``fault`` is an unexpected error, which ends the leadership. ``committed`` counts the groups
    that were committed. ``refusals`` counts the groups that the pointer store has refused since the last commit, by
    errors that are not conflicts. ``clock`` gives monotonic seconds. A commit may take at most ``seconds``.
    """

    def __init__(
        self,
        store: PointerStore,
        memory: JournalMemory,
        admission: Admission,
        lease: LeaderLease,
        observer: JournalObserver,
        decide: Decide,
        clock: Callable[[], float],
        seconds: float,
    ) -> None:
        self.flight: list[Group] = []
        self.wake = asyncio.Event()
        self.progress = asyncio.Event()
        self.resting = False
        self.context: Context | None = None
        self.fault: BaseException | None = None
        self.committed = 0
        self.refusals = 0
        self._store = store
        self._memory = memory
        self._admission = admission
        self._lease = lease
        self._observer = observer
        self._decide = decide
        self._clock = clock
        self._seconds = seconds
        self._batching = AdaptiveBatching(self.wake.set, clock)
        self._alarm = Alarm(clock, self._end_late)
        self._launches = False
        self._waiting: list[NoOpRequest] = []
        self._committed: list[Group] = []
        self._groups = 0
        self._delay: asyncio.TimerHandle | None = None
        self._has_delayed = False

    @property
    def idle(self) -> bool:
        """Whether no group is in flight and no request waits for one."""
        return not (self._admission.queue or self.flight or self._committed)

    @property
    def has_answers(self) -> bool:
        """Whether groups have been committed whose callers are not answered yet."""
        return bool(self._committed)

    def arrived(self) -> None:
        """Note that a request was admitted. If a group may be sent, it is sent once the event loop has run what is
        ready now, so that the requests that come in together are in one group.
        """
        self._batching.arrived()
        if self.resting and not self._launches and self.may_launch():
            self._launches = True
            asyncio.get_running_loop().call_soon(self._launch_at_rest, context=self.context)

    def _launch_at_rest(self) -> None:
        """Send a group without waking `Journal.run`, which costs as much as building the group. If more is to be done,
        wake it.
        """
        self._launches = False
        if not self.resting or self.wake.is_set():
            return
        try:
            if self._admission.queue and len(self.flight) < self._store.limits.in_flight:
                self.launch()
        except Exception as fault:  # noqa: BLE001 - `Journal.run` raises it
            self.fault = fault
        if self.fault is not None or (self._admission.queue and self.may_launch()):
            self.wake.set()

    def hurry(self) -> None:
        """Send the next group without waiting for more requests."""
        self._batching.give_up()
        self._has_delayed = True

    def may_launch(self) -> bool:
        """Return whether requests are waiting, and a group of them may be sent now."""
        if not self._admission.queue or len(self.flight) >= self._store.limits.in_flight:
            return False
        return not self._delayed() and (bool(self.flight) or self._batching.complete())

    def _delayed(self) -> bool:
        """Return whether the next group still waits because the pointer store is not ready for another commit.

        A group waits only once, and for a limited time. Requests that change nothing wait with the group.
        """
        if self._has_delayed or (seconds := self._store.commit_delay) <= 0:
            return False
        if self._delay is None:
            self._delay = asyncio.get_running_loop().call_later(min(seconds, _MOST_DELAY_SECONDS), self._delay_ended)
        return True

    def _delay_ended(self) -> None:
        self._delay, self._has_delayed = None, True
        self.wake.set()

    def _end_delay(self) -> None:
        """End the delay of the group that is sent now, so that the next group may be delayed in turn."""
        if self._delay is not None:
            self._delay.cancel()
        self._delay, self._has_delayed = None, False

    def launch(self) -> None:
        """Send waiting requests as a group behind those in flight, and answer requests that change nothing.

        If requests stay in the queue, the caller calls this method again, after other tasks of the event loop have run.
        """
        if self._has_delayed or self._delay is not None:
            self._end_delay()
        last = self.flight[-1] if self.flight else None
        memory = self._memory
        head = replace(last.head, revision=last.revision, digest=last.digest) if last else memory.head
        group = Group(self._groups + 1, head, head.revision)
        built = build(
            self._admission.queue,
            memory.view,
            group,
            self._store.limits,
            self._decide,
            memory.contexts(),
            memory.size_limit,
            self._clock,
        )
        for entry in built:
            if entry.depends:
                self._waiting.append(entry)
            else:
                self._answer(entry)
        if group.members:
            self._groups = group.number
            memory.stage(group)
            deadline = self._batching.launched() + self._seconds
            self.flight.append(group)
            commit = self._store.commit(group.head, group.changes, group.revision, group.digest)
            group.begin(commit, self._seconds, deadline).add_done_callback(lambda _: self._ended(group))
            if deadline < self._alarm.at:
                self._alarm.set(deadline)
        else:
            self.progress.set()

    def _end_late(self, now: float) -> float | None:
        """Stop waiting for the commits whose time is over, and return when that of the next one is."""
        running = [group for group in self.flight if group.running is not None and not group.running.done()]
        for group in running:
            if group.deadline <= now:
                group.end_late()
        return min((group.deadline for group in running if group.deadline > now), default=None)

    def _ended(self, group: Group) -> None:
        if group.outcome is None and (fault := group.fault) is not None:
            self.fault = fault
        while self.flight and type(self.flight[0].outcome) is Done:
            try:
                self._note_committed(self.flight.pop(0))
            except Exception as fault:
                log.exception("cannot update the memory for a group that was committed: this process ends")
                self.fault = fault
        if self.fault is None and not self._admission.queue:
            self.acknowledge()  # no group is sent before the answers, so they need not wait for `Journal.run`
            if not self.flight:
                return  # and nothing is left to do for it
        self.wake.set()

    def _note_committed(self, group: Group) -> None:
        self._committed.append(group)
        self._memory.commit(group)
        self.refusals = 0
        self._admission.trouble = None
        self._batching.committed(len(group.members))
        self._report(group)

    def _report(self, group: Group) -> None:
        """Tell the `JournalObserver` that the group was committed. An exception of the observer ends the leadership;
        the group stays committed.
        """
        self.committed += 1
        for member in group.members:
            try:
                self._observer.committed(member.pending.request, member.accepted)
            except Exception as fault:
                log.exception("cannot do what follows from a committed request: this process ends")
                self.fault = fault

    def acknowledge(self) -> None:
        """Answer the requests of groups that have been committed, and the requests that waited for these groups."""
        committed, self._committed = self._committed, []
        for group in committed:
            for member in group.members:
                member.pending.serve(member.accepted, member.revision, self._memory.head.term)
            if self._waiting:
                ready = [entry for entry in self._waiting if entry.depends <= group.number]
                self._waiting = [entry for entry in self._waiting if entry.depends > group.number]
                for entry in ready:
                    self._answer(entry)
        self.progress.set()

    def _answer(self, entry: NoOpRequest) -> None:
        """Answer a request that changes nothing. Like a read, it is answered only while the lease holds, and only from
        committed state.
        """
        if self._lease.holds():
            entry.pending.serve(entry.decision, self._memory.head.revision, self._memory.head.term)
        else:
            entry.pending.fail(problem(Code.NO_LEADER, "the lease ran out before the request could be answered"))

    def cancel_commits(self) -> None:
        """Stop waiting for the commits in flight. Each of them may still be committed."""
        for group in self.flight:
            group.cancel()

    def judge(self, count: int, now: float) -> Verdict:
        """End the flight of all groups, and return what happens to their requests.

        The first ``count`` groups were committed; the others certainly never will be. Afterwards the memory shows the
        committed groups. The callers are answered later, by `conclude`. ``now`` is the monotonic time in seconds.
        """
        verdict = judge(self.flight, count, now)
        self._memory.conclude_flight(verdict.committed, self.flight[count:])
        self.flight = []
        return verdict

    def conclude(self, verdict: Verdict) -> None:
        """Carry out the verdict: answer requests that were committed, fail those given up, and requeue the others."""
        again = [*verdict.again, *(entry.pending for entry in self._waiting)]
        self._waiting, self._admission.trouble = [], None
        self._batching.give_up()
        for group in verdict.committed:
            self._report(group)
            for member in group.members:
                member.pending.serve(member.accepted, member.revision, self._memory.head.term)
        for pending, error in verdict.given_up:
            if pending.abandoned:
                self._observer.given_up(pending.request)
            pending.fail(error)
        self._admission.again(again)
        self.progress.set()
        log.info(
            "the commits in doubt are resolved at term %d: %d groups were committed, %d requests go back to the queue",
            self._memory.head.term,
            len(verdict.committed),
            len(again),
        )

    def end(self) -> None:
        """End the pipeline, because leadership is over. Idempotent.

        Requests that were committed are answered. Requests in flight end with outcome unknown, or as not applied if the
        pointer store refused them. The others go back to the queue.
        """
        self.resting = False
        self._batching.give_up()
        self._alarm.end()
        self._end_delay()
        self.acknowledge()
        error = without_resolving(self.flight)
        self.cancel_commits()
        for group in self.flight:
            for member in group.members:
                member.pending.fail(error)
        self._admission.again([entry.pending for entry in self._waiting])
        self.flight, self._waiting = [], []
