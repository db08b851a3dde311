"""The queue in front of the journal: a request waits here until it joins a group, or is withdrawn at its deadline."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from milepost.errors import Problem
from milepost.wire import Code
from milepost_backends.contract import BackendError, StorageFull
from milepost_server.basics.alarm import Alarm
from milepost_server.basics.problems import problem
from milepost_server.journal.attempts import Attempts
from milepost_server.journal.pending import PendingRequest, Served
from milepost_server.model.requests.base import Request, with_id


class Admission:
    """The queue of requests that wait to be committed, at most ``most_waiting`` of them.

    ``clock`` gives monotonic seconds. ``trouble`` is the error that prevents commits at the moment, None while commits
    are possible. The problem of a request that is withdrawn during the trouble quotes this error.
    """

    def __init__(self, clock: Callable[[], float], most_waiting: int, attempts: Attempts) -> None:
        self.queue: deque[PendingRequest] = deque()
        self.trouble: BackendError | None = None
        self._clock = clock
        self._most_waiting = most_waiting
        self._attempts = attempts
        self._ids = 0
        self._alarm = Alarm(clock, self._wake_late)
        self._waiting: dict[PendingRequest, None] = {}
        """The requests that a caller waits for."""

    def admit(self, request: Request, deadline: float, term: int) -> PendingRequest:
        """Queue a request, and return it as pending. The caller must have checked that it joins no running attempt
        (`Attempts.joined`).

        A request without an idempotency key gets a unique id in its place, made of ``term`` and a number. Raises a
        ``too-many-requests`` problem if too many requests are waiting already. The leader's own requests are always
        admitted.
        """
        internal = request.by_leader
        if not internal and len(self.queue) >= self._most_waiting:
            raise problem(Code.TOO_MANY_REQUESTS, f"{len(self.queue)} requests are already waiting to be written")
        if request.key is not None:
            pending = PendingRequest(request, deadline)
            self._attempts.submitted(pending)
        elif internal:
            pending = PendingRequest(request, deadline)
        else:
            self._ids += 1
            pending = PendingRequest(with_id(request, f"{term}.{self._ids}"), deadline)
        self.queue.append(pending)
        return pending

    async def wait(self, pending: PendingRequest) -> Served:
        """Wait until the request has ended, at most until its deadline, and return how it ended.

        If the request ended with a problem, raises it. At the deadline, a request that is still queued is withdrawn
        (``storage-unavailable`` or ``storage-full``); a request that is in flight goes on, and the caller gets
        ``outcome-unknown``.
        """
        if pending.end is None:
            pending.waiter = asyncio.get_running_loop().create_future()
            self._waiting[pending] = None
            if pending.deadline < self._alarm.at:
                self._alarm.set(pending.deadline)
            try:
                await pending.waiter
            finally:
                del self._waiting[pending]
        if pending.end is None:
            if not pending.queued:
                pending.abandoned = True
                raise problem(Code.OUTCOME_UNKNOWN, "the storage has not confirmed the write before the deadline")
            pending.fail(self._withdrawn())
        end = pending.end
        return end if type(end) is Served else pending.result()

    def _wake_late(self, now: float) -> float | None:
        """Wake the callers whose deadline has come, and return the earliest deadline of the others."""
        for pending in self._waiting:
            if pending.deadline <= now:
                pending.wake()
        return min((each.deadline for each in self._waiting if each.deadline > now), default=None)

    def again(self, requests: Sequence[PendingRequest]) -> None:
        """Put requests that were taken from the queue, but not committed, back to its front in their original order."""
        for pending in requests:
            pending.queued = True
        self.queue.extendleft(reversed(requests))

    def drop(self, error: Problem) -> None:
        """End all waiting requests with ``error``."""
        for pending in self.queue:
            pending.fail(error)
        self.queue.clear()

    def _withdrawn(self) -> Problem:
        if isinstance(self.trouble, StorageFull):
            return problem(Code.STORAGE_FULL, str(self.trouble))
        detail = f": {self.trouble}" if self.trouble else ""
        return problem(Code.STORAGE_UNAVAILABLE, f"the write could not be sent to the storage in time{detail}")
