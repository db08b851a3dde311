"""The newest attempt of a key stands for it; an older one that has not submitted anything yet never will.

`Attempts` joins a retry to the request that is on its way. An attempt whose bytes still come in, or that waits between
two requests, has none there: were the retry refused meanwhile, "not applied" would be told of a key that the older
attempt applies later. The newer one does not wait for the older, since the connection that this reads from may be
long dead: the older one ends as the newer does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from milepost.wire import Code
from service.problems import problem
from service.rules.requests import Request
from service.rules.state import KeyScope

T = TypeVar("T")

MaySubmit = Callable[[Request], None]
"""Called right before a request is submitted. Raises `Superseded` if it must not be."""


class Superseded(Exception):
    """There is, or was, a newer attempt of the key."""


class _Claim:
    def __init__(self) -> None:
        self.newer: _Claim | None = None
        self.fingerprint: str | None = None
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def may_submit(self, request: Request) -> None:
        self.fingerprint = request.fingerprint()
        if self.newer is not None:
            raise Superseded

    def end(self, result: object) -> None:
        self.ended.set_result(result)

    def fail(self, error: Exception) -> None:
        self.ended.set_exception(error)
        self.ended.exception()  # an older attempt may follow it, or none


class Claims:
    """The attempts that run under each key, the newest first."""

    def __init__(self) -> None:
        self._newest: dict[KeyScope, _Claim] = {}

    async def run(self, scope: KeyScope, act: Callable[[MaySubmit], Awaitable[T]], timeout: float) -> tuple[T, bool]:
        """The result of ``act``, or of a newer attempt that took its place, and whether it is that.

        Raises what they raise; ``outcome-unknown`` and ``idempotency-mismatch`` problems where the newer attempt has
        no end within ``timeout`` seconds, or was another request.
        """
        claim = _Claim()
        if (older := self._newest.get(scope)) is not None:
            older.newer = claim
        self._newest[scope] = claim
        try:
            try:
                result, joined = await act(claim.may_submit), False
            except Superseded:
                result, joined = await _followed(claim, timeout), True
        except Exception as error:
            claim.fail(error)
            raise
        except BaseException:
            claim.fail(problem(Code.OUTCOME_UNKNOWN, "the attempt was broken off"))
            raise
        finally:
            if self._newest.get(scope) is claim:
                del self._newest[scope]
        claim.end(result)
        return result, joined


async def _followed(claim: _Claim, timeout: float) -> Any:
    newer = claim.newer
    assert newer is not None
    await asyncio.wait((newer.ended,), timeout=timeout)
    if not newer.ended.done():
        raise problem(Code.OUTCOME_UNKNOWN, "a newer attempt of this key has not ended yet")
    result = newer.ended.result()
    if newer.fingerprint != claim.fingerprint:
        raise problem(Code.IDEMPOTENCY_MISMATCH, "the key is in use for another request")
    return result
