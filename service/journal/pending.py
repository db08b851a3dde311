"""A request on its way through the journal."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from service.rules.decisions import Accepted, Blocked, Decision, Refused
from service.rules.requests import Request


@dataclass(frozen=True, slots=True)
class Served:
    """A final decision, and the revision and term that it reflects."""

    decision: Decision
    revision: int
    term: int


@dataclass(eq=False, slots=True)
class PendingRequest:
    """A request, its deadline (monotonic seconds) and its end.

    ``done`` ends with what truly became of the request, also when nobody waits any more: a `Served`, or a problem whose
    outcome is ``not_applied`` (it can never land) or ``unknown`` (leadership was lost over it). ``abandoned``: whoever
    waited was told before, that the outcome is unknown. ``waiter`` ends with ``done``, or at the deadline before it.
    ``spared``: it goes on although the store was full, since it frees room; but not a second time.
    """

    request: Request
    deadline: float
    done: asyncio.Future[Served] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    queued: bool = True
    abandoned: bool = False
    spared: bool = False
    waiter: asyncio.Future[None] | None = None

    def serve(self, decision: Accepted | Refused | Blocked, revision: int, term: int) -> None:
        """End well."""
        if not self.done.done():
            self.done.set_result(Served(decision, revision, term))
            self.wake()

    def fail(self, error: Exception) -> None:
        """End without a decision."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # whoever waits sees it; nobody waiting is no error
            self.wake()

    def wake(self) -> None:
        """Let whoever waits look, be it that the end has come or that the time is up."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
