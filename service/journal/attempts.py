"""One running attempt per idempotency key: a retry joins it.

Without this, "not applied" could be answered to one attempt while the other, still on its way, is applied later.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from milepost.wire import Code
from service.journal.pending import PendingRequest, Served, scope_of
from service.problems import problem
from service.rules.decisions import Accepted
from service.rules.requests import Request
from service.rules.state import KeyScope


class Attempts:
    """The attempts that have not ended yet, by the scope of their key. Requests without one cannot be retried."""

    def __init__(self) -> None:
        self._running: dict[KeyScope, PendingRequest] = {}

    def begin(self, pending: PendingRequest) -> None:
        """It is the running attempt of its key from now on."""
        self._running[pending.scope] = pending
        pending.done.add_done_callback(lambda _: self._running.pop(pending.scope))

    def joined(self, request: Request, deadline: float) -> PendingRequest | None:
        """A pending request that ends as the running attempt of the request's key does; None if there is none.

        Raises an ``idempotency-mismatch`` problem if the running attempt is another request under the same key.
        """
        running = self._running.get(scope_of(request))
        if running is None:
            return None
        if running.request.fingerprint() != request.fingerprint():
            raise problem(Code.IDEMPOTENCY_MISMATCH, f"the key {request.key!r} is in use for another request")
        pending = PendingRequest(request, deadline, queued=False)
        running.done.add_done_callback(lambda done: _follow(done, pending))
        return pending


def _follow(done: asyncio.Future[Served], pending: PendingRequest) -> None:
    """End a joined retry as the attempt did; a success is told as a replay."""
    error = done.exception()
    if isinstance(error, Exception):
        pending.fail(error)
        return
    served = done.result()
    decision = served.decision
    if isinstance(decision, Accepted):
        decision = replace(decision, answer=replace(decision.answer, replayed=True))
    pending.serve(decision, served.revision, served.term)
