"""Requests of the journal that have not ended: a `PendingRequest` is a request from its admission until its end, a
`Served` the decision that it ends with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from milepost_server.memory.view import View
from milepost_server.model.requests.base import Request
from milepost_server.rules.decisions import Accepted, Blocked, Decision, DecisionContext, Refused

Decide = Callable[[View, Request, DecisionContext], Decision]
"""A function that decides a request against the state at the time of the request's commit."""


class Served(msgspec.Struct, frozen=True, gc=False):
    """A final decision of the rules on a request, with the revision and the term of the state that it reflects."""

    decision: Decision
    revision: int
    term: int


@dataclass(eq=False, slots=True)
class PendingRequest:
    """A request that the journal has admitted, with its deadline (monotonic seconds) and its end.

    ``end`` is the true outcome of the request, even if no caller waits any more; None while the request goes on. It is
    a `Served`, or a problem whose outcome is ``not_applied`` (it can never be committed) or ``unknown`` (leadership was
    lost). ``queued`` is true while the request waits for a group. ``abandoned``: the caller was already told that the
    outcome is unknown. ``waiter`` is done once the request has ended, or at the deadline if that comes first.
    ``then`` are called once the request has ended. ``spared``: the request was tried once more although the pointer
    store was full, since it frees room; the leader does so only once.

    The end is no future: the event loop would call back for it once more, which costs more than all of this.
    """

    request: Request
    deadline: float
    queued: bool = True
    abandoned: bool = False
    spared: bool = False
    end: Served | Exception | None = None
    waiter: asyncio.Future[None] | None = None
    then: tuple[Callable[[Served | Exception], None], ...] = ()

    def serve(self, decision: Accepted | Refused | Blocked, revision: int, term: int) -> None:
        """End the request with a decision of the rules, which reflects ``revision`` and ``term``."""
        if self.end is None:
            self._end(Served(decision, revision, term))

    def fail(self, error: Exception) -> None:
        """End the request with ``error``, without a decision of the rules."""
        if self.end is None:
            self._end(error)

    def _end(self, end: Served | Exception) -> None:
        self.end = end
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
        for call in self.then:
            call(end)

    def result(self) -> Served:
        """Return how the request has ended. Raises the problem that it ended with."""
        end = self.end
        assert end is not None
        if isinstance(end, Exception):
            raise end
        return end

    def wake(self) -> None:
        """Wake the waiting caller, because the request has ended or its deadline has come."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def ended(self) -> Served:
        """Wait until the request has ended, whatever its deadline, and return the decision on it. Raises the problem
        that it ended with.
        """
        if self.end is None:
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter
        return self.result()
