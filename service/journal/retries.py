"""Retries: under one idempotency key one attempt stands for all others that run at the same time.

Were each attempt answered by itself, "not applied" could be answered to one while the other, still on its way, is
applied later. An attempt may be found in two places:

- It was submitted to the journal and has not ended. A retry joins it (`Retries.joined`) and ends as it does.
- It has submitted nothing yet: its bytes still come in, or it waits between two requests. Then the newest attempt
  stands for the key, and an older one never submits anything (`Retries.run`). The newer attempt does not wait for the
  older one, whose connection may be long dead; the older one waits for the newer, and ends as it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from milepost.wire import Code
from service.basics.problems import problem
from service.journal.pending import PendingRequest, Served
from service.rules.decisions import Accepted
from service.rules.requests import KeyScope, Request

T = TypeVar("T")

MaySubmit = Callable[[Request], None]
"""Called right before a request is submitted. Raises `Superseded` if it must not be."""


class Superseded(Exception):
    """A newer attempt under the same key has begun, so this one submits nothing."""


class Retries:
    """The attempts that run now, by the scope of their idempotency key."""

    def __init__(self) -> None:
        self._submitted: dict[KeyScope, PendingRequest] = {}
        self._newest: dict[KeyScope, _RunningAttempt] = {}

    def submitted(self, pending: PendingRequest) -> None:
        """Remember a submitted request until it ends, so that retries can join it."""
        scope = pending.request.scope
        self._submitted[scope] = pending
        pending.done.add_done_callback(lambda _: self._submitted.pop(scope))

    def joined(self, request: Request, deadline: float) -> PendingRequest | None:
        """Return a pending request that ends as the submitted attempt of the same key does; None if there is none.

        Raises an ``idempotency-mismatch`` problem if that attempt is another request under the same key.
        """
        first = None if request.key is None else self._submitted.get(request.scope)
        if first is None:
            return None
        if first.request.fingerprint() != request.fingerprint():
            raise problem(Code.IDEMPOTENCY_MISMATCH, f"the key {request.key!r} is in use for another request")
        pending = PendingRequest(request, deadline, queued=False)
        first.done.add_done_callback(lambda done: _end_alike(pending, done))
        return pending

    async def run(self, scope: KeyScope, act: Callable[[MaySubmit], Awaitable[T]], timeout: float) -> tuple[T, bool]:
        """Run ``act`` as the newest attempt of its key. Return its result, or the result of a newer attempt that took
        its place meanwhile, and whether it was the newer one's.

        Raises what the two raise; an ``outcome-unknown`` problem if the newer attempt does not end within ``timeout``
        seconds, an ``idempotency-mismatch`` problem if it was another request.
        """
        attempt = _RunningAttempt()
        if (older := self._newest.get(scope)) is not None:
            older.newer = attempt
        self._newest[scope] = attempt
        try:
            try:
                result, joined = await act(attempt.may_submit), False
            except Superseded:
                result, joined = await attempt.result_of_newer(timeout), True
        except Exception as error:
            attempt.fail(error)
            raise
        except BaseException:
            attempt.fail(problem(Code.OUTCOME_UNKNOWN, "the attempt was broken off"))
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
        self.ended.exception()  # an older attempt may wait for it, or none does

    async def result_of_newer(self, timeout: float) -> Any:
        newer = self.newer
        assert newer is not None
        await asyncio.wait((newer.ended,), timeout=timeout)
        if not newer.ended.done():
            raise problem(Code.OUTCOME_UNKNOWN, "a newer attempt of this key has not ended yet")
        result = newer.ended.result()
        if newer._fingerprint != self._fingerprint:
            raise problem(Code.IDEMPOTENCY_MISMATCH, "the key is in use for another request")
        return result


def _end_alike(pending: PendingRequest, done: asyncio.Future[Served]) -> None:
    """End a joined retry as the first attempt ended; a success is answered as a replay."""
    error = done.exception()
    if isinstance(error, Exception):
        pending.fail(error)
        return
    served = done.result()
    decision = served.decision
    if isinstance(decision, Accepted):
        decision = replace(decision, answer=replace(decision.answer, replayed=True))
    pending.serve(decision, served.revision, served.term)
