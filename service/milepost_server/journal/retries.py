"""Retries: of all attempts that run at the same time under one idempotency key, only one submits its request.

If each attempt were answered by itself, one could be answered "not applied" while another, still in flight, is applied
later. When a retry arrives, the earlier attempt is in one of two states:

- It was submitted to the journal and has not ended. Then the retry joins it (`Retries.joined`), and ends as it does.
- It has not submitted its request yet, because its bytes are still being received or it waits between two requests.
  Then the newest attempt acts for the key, and an older one never submits anything (`Retries.run`). The newer attempt
  does not wait for the older one, whose connection may be dead; the older one waits for the newer, and ends as it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal.pending import PendingRequest, Served
from milepost_server.rules.decisions import Accepted
from milepost_server.rules.requests.base import KeyScope, Request

T = TypeVar("T")

MaySubmit = Callable[[Request], None]
"""A function that is called right before a request is submitted, and raises `Superseded` if it must not be."""


class Superseded(Exception):
    """Raised in an attempt that must not submit its request, because a newer attempt of the same key has begun."""


class Retries:
    """All attempts that are running, by the scope of their idempotency key."""

    def __init__(self) -> None:
        self._submitted: dict[KeyScope, PendingRequest] = {}
        self._newest: dict[KeyScope, _RunningAttempt] = {}

    def submitted(self, pending: PendingRequest) -> None:
        """Remember a submitted request until it ends, so that retries can join it."""
        scope = pending.request.scope
        self._submitted[scope] = pending
        pending.done.add_done_callback(lambda _: self._submitted.pop(scope))

    def joined(self, request: Request, deadline: float) -> PendingRequest | None:
        """Return a pending request that ends as the submitted attempt of the same key will; None if there is none.

        Raises an ``idempotency-mismatch`` problem if that attempt is another request under the same key.
        """
        first = None if request.key is None else self._submitted.get(request.scope)
        if first is None:
            return None
        if first.request.fingerprint() != request.fingerprint():
            raise problem(Code.IDEMPOTENCY_MISMATCH, f"the idempotency key {request.key!r} is used by another request")
        pending = PendingRequest(request, deadline, queued=False)
        first.done.add_done_callback(lambda done: _end_alike(pending, done))
        return pending

    async def run(self, scope: KeyScope, work: Callable[[MaySubmit], Awaitable[T]], timeout: float) -> tuple[T, bool]:
        """Run ``work`` as the newest attempt of its key, and return its result and False.

        If a newer attempt takes its place before it has submitted its request, wait for that one, and return the newer
        one's result and True.

        Raises what ``work`` or the newer attempt raises; an ``outcome-unknown`` problem if the newer attempt does not
        end within ``timeout`` seconds; an ``idempotency-mismatch`` problem if the newer attempt is another request.
        """
        attempt = _RunningAttempt()
        if (older := self._newest.get(scope)) is not None:
            older.newer = attempt
        self._newest[scope] = attempt
        try:
            try:
                result, joined = await work(attempt.may_submit), False
            except Superseded:
                result, joined = await attempt.result_of_newer(timeout), True
        except Exception as error:
            attempt.fail(error)
            raise
        except BaseException:
            attempt.fail(problem(Code.OUTCOME_UNKNOWN, "this attempt was cancelled before it ended"))
            raise
        finally:
            if self._newest.get(scope) is attempt:
                del self._newest[scope]
        attempt.ended.set_result(result)
        return result, joined


class _RunningAttempt:
    """An attempt that may or may not have submitted its request yet."""

    def __init__(self) -> None:
        self.newer: _RunningAttempt | None = None
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._fingerprint: str | None = None

    def may_submit(self, request: Request) -> None:
        self._fingerprint = request.fingerprint()
        if self.newer is not None:
            raise Superseded

    def fail(self, error: Exception) -> None:
        self.ended.set_exception(error)
        self.ended.exception()  # mark it as seen: asyncio would complain where no older attempt waits

    async def result_of_newer(self, timeout: float) -> Any:
        newer = self.newer
        assert newer is not None
        await asyncio.wait((newer.ended,), timeout=timeout)
        if not newer.ended.done():
            raise problem(Code.OUTCOME_UNKNOWN, "a newer attempt with this idempotency key has not ended yet")
        result = newer.ended.result()
        if newer._fingerprint != self._fingerprint:
            raise problem(Code.IDEMPOTENCY_MISMATCH, "the idempotency key is used by another request")
        return result


def _end_alike(pending: PendingRequest, done: asyncio.Future[Served]) -> None:
    """End a joined retry as the first attempt ended. A success is marked as a replay."""
    error = done.exception()
    if isinstance(error, Exception):
        pending.fail(error)
        return
    served = done.result()
    decision = served.decision
    if isinstance(decision, Accepted):
        decision = replace(decision, answer=replace(decision.answer, replayed=True))
    pending.serve(decision, served.revision, served.term)
