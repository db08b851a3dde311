"""Requests of the journal that have not ended: a `PendingRequest` is a request from its admission until its end, a
`Served` the decision that it ends with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

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

    ``done`` ends with the true outcome of the request, even if no caller waits any more: with a `Served`, or with a
    problem whose outcome is ``not_applied`` (it can never be committed) or ``unknown`` (leadership was lost).
    ``queued`` is true while the request waits for a group. ``abandoned``: the caller was already told that the outcome
    is unknown. ``waiter`` ends with ``done``, or at the deadline if that comes first. ``spared``: the request was tried
    once more although the pointer store was full, since it frees room; the leader does so only once.
    """

    request: Request
    deadline: float
    done: asyncio.Future[Served] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    queued: bool = True
    abandoned: bool = False
    spared: bool = False
    waiter: asyncio.Future[None] | None = None

    def serve(self, decision: Accepted | Refused | Blocked, revision: int, term: int) -> None:
        """End the request with a decision of the rules, which reflects ``revision`` and ``term``."""
        if not self.done.done():
            self.done.set_result(Served(decision, revision, term))
            self.wake()

    def fail(self, error: Exception) -> None:
        """End the request with ``error``, without a decision of the rules."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # mark the exception as retrieved: asyncio would log it if no caller waits
            self.wake()

    def wake(self) -> None:
        """Wake the waiting caller, because the request has ended or its deadline has come."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
