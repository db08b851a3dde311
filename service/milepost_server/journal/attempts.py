"""Attempts: of all requests that come in under one idempotency key, only one is applied, and all get its answer.

This leader keeps one of these states for each key:

| State     | Begins when                              | Another attempt under the key                        |
|-----------|------------------------------------------|------------------------------------------------------|
| prepared  | its bytes come in, or it waits (`run`)   | replaces it: the older attempt submits nothing       |
| submitted | the journal admits it (`submitted`)      | joins it (`joined`), and ends as it does             |
| applied   | its request is committed                 | gets the first answer (`applied`, `rules.replays`)   |
| forgotten | the time of the state before is over     | counts as a first attempt                            |

If attempts were answered independently, one could be answered "not applied", and another attempt of the same request,
still in flight, be applied later.

A record keeps the answers to its newest changes (`rules.replays`), so a new leader knows them too. This is not enough
for writes of files. Before a data node repeats such a write, the file may be renamed, deleted or replaced, and the
record with the answer is then gone. So this leader remembers these writes in memory (`Request.remembered`). It also
remembers the number of their newest attempt, and refuses a late attempt with a lower number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.journal.pending import PendingRequest, Served
from milepost_server.model.requests.base import KeyScope, Request
from milepost_server.model.requests.trees import PutFile
from milepost_server.model.trees import TreePath
from milepost_server.rules.decisions import Accepted, Answer

T = TypeVar("T")

REMEMBERED_SECONDS: Final = 4800.0
"""How many seconds the leader remembers a write of files after its commit. This is longer than an upload token can be
used, so that no write is applied twice; a body may take more than an hour.
"""

_NUMBER_SECONDS: Final = 600.0
"""How many seconds the leader remembers the number of the newest attempt. This is much longer than a data node
retries.
"""

MOST_REMEMBERED: Final = 100_000
"""The most writes that the leader remembers, and the most attempt numbers, of half a kilobyte each. New entries replace
the oldest ones.
"""

MaySubmit = Callable[[Request], None]
"""A function that an attempt calls right before it submits a request. It raises an error if the attempt must not
submit.
"""


class Superseded(Exception):
    """Raised in an attempt that must not submit its request, because a newer attempt under the same idempotency key has
    begun.
    """


class Applied(msgspec.Struct, frozen=True, gc=False):
    """A committed write of files: its fingerprint, its first answer marked as a replay, and the blob of a put.

    ``blob`` is None for a write without a blob, and if the blob of the first attempt is not known.
    """

    fingerprint: str
    answer: Answer
    blob: str | None

    def check_same(self, request: Request) -> None:
        """Raise an ``idempotency-mismatch`` problem unless ``request`` is this write: its kind, path and bytes.

        Without this check, a client that sends other bytes under the same key would get the first answer, as if its
        bytes were stored.
        """
        if self.fingerprint != request.fingerprint():
            why = "this token or key was used for other bytes, for another path or another call: ask with another one"
            raise problem(Code.IDEMPOTENCY_MISMATCH, why)


class Attempts:
    """The attempts that this leader knows, by idempotency key: those that run, and writes of files that were committed.
    ``clock`` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._prepared: dict[KeyScope, _Preparation] = {}
        self._submitted: dict[KeyScope, PendingRequest] = {}
        self._applied = _Remembered[Applied](clock, REMEMBERED_SECONDS)
        self._numbers = _Remembered[int](clock, _NUMBER_SECONDS)

    # -- prepared ------------------------------------------------------------------------------------------------------

    async def run(self, scope: KeyScope, work: Callable[[MaySubmit], Awaitable[T]], timeout: float) -> tuple[T, bool]:
        """Run ``work`` as the newest attempt of its key, and return its result and False.

        If a newer attempt begins before ``work`` has submitted its request, wait for the newer one, and return its
        result and True. The newer attempt never waits for the older one, whose connection may be dead.

        Raises what ``work`` or the newer attempt raises; an ``outcome-unknown`` problem if the newer attempt does not
        end within ``timeout`` seconds; an ``idempotency-mismatch`` problem if the newer attempt is another request.
        """
        attempt = _Preparation()
        if (older := self._prepared.get(scope)) is not None:
            older.newer = attempt
        self._prepared[scope] = attempt
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
            if self._prepared.get(scope) is attempt:
                del self._prepared[scope]
        attempt.ended.set_result(result)
        return result, joined

    def begin(self, request: Request) -> None:
        """Remember the number of an attempt at a write of files, as the attempt begins. Raises an ``outcome-unknown``
        problem if a newer attempt has begun.

        The number of a first attempt is not stored, since it is never higher than another.
        """
        self.check_newest(request)
        if request.attempt.number > 1:
            self._numbers.put(_name(request), request.attempt.number)

    def check_newest(self, request: Request) -> None:
        """Raise an ``outcome-unknown`` problem if a newer attempt has begun; the newer attempt learns how the write
        ends.

        The problem is not retryable: after a fail-over, the new leader does not know that this attempt is late.
        """
        if self._numbers.is_empty:
            return
        number, newest = request.attempt.number, self._numbers.get(_name(request))
        if newest is not None and newest > number:
            detail = f"attempt {newest} at this put has begun, and this is attempt {number}"
            raise problem(Code.OUTCOME_UNKNOWN, detail, retryable=False)

    # -- submitted -----------------------------------------------------------------------------------------------------

    def submitted(self, pending: PendingRequest) -> None:
        """Remember a submitted request until it ends, so that other attempts under the same key can join it."""
        scope = pending.request.scope
        self._submitted[scope] = pending
        pending.then += (lambda end: self._ended(pending.request, scope, end),)

    def joined(self, request: Request, deadline: float) -> PendingRequest | None:
        """Return a pending request that ends as the submitted attempt of the same key does; None if no attempt is
        submitted.

        Raises an ``idempotency-mismatch`` problem if the submitted attempt is another request under the same key.
        """
        if not self._submitted or request.attempt.key is None:
            return None
        first = self._submitted.get(request.scope)
        if first is None:
            return None
        if first.request.fingerprint() != request.fingerprint():
            raise problem(Code.IDEMPOTENCY_MISMATCH, f"the idempotency key {request.key!r} is used by another request")
        pending = PendingRequest(request, deadline, queued=False)
        first.then += (lambda end: _end_alike(pending, end),)
        return pending

    # -- applied -------------------------------------------------------------------------------------------------------

    def _ended(self, request: Request, scope: KeyScope, end: Served | Exception) -> None:
        del self._submitted[scope]
        if not request.remembered or isinstance(end, Exception):
            return
        decision = end.decision
        put = request if isinstance(request, PutFile) else None
        if not isinstance(decision, Accepted) or not (decision.changes or put):
            return
        answer = decision.answer
        if answer.replayed and self.applied(request) is not None:
            return
        # The blob of this request is remembered only with a first answer. A replayed answer may be that of an earlier
        # put with another blob.
        blob = put.blob.key if put is not None and not answer.replayed else None
        self._applied.put(
            _name(request), Applied(_fingerprint(request, decision), replace(answer, replayed=True), blob)
        )

    def applied(self, request: Request) -> Applied | None:
        """Return the write of files that was committed under the key of ``request``; None if none is known."""
        return None if request.attempt.key is None else self._applied.get(_name(request))


class _Preparation:
    """The newest attempt under an idempotency key, while it runs. Once a newer attempt has begun, this attempt must not
    submit its request, and waits for the result of the newer attempt.
    """

    def __init__(self) -> None:
        self.newer: _Preparation | None = None
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._fingerprint: str | None = None

    def may_submit(self, request: Request) -> None:
        self._fingerprint = request.fingerprint()
        if self.newer is not None:
            raise Superseded

    def fail(self, error: Exception) -> None:
        self.ended.set_exception(error)
        self.ended.exception()  # mark the exception as retrieved: asyncio would log it if no older attempt waits

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


class _Remembered(Generic[T]):
    """A cache of values by key. Each value is kept for ``seconds`` after it was put; of more than `MOST_REMEMBERED`
    values, the oldest are dropped.
    """

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._values: dict[KeyScope, tuple[T, float]] = {}
        """Each value with the monotonic time at which it expires, in the order in which the values were put."""

    @property
    def is_empty(self) -> bool:
        return not self._values

    def put(self, key: KeyScope, value: T) -> None:
        now = self._clock()
        self._values.pop(key, None)
        self._values[key] = value, now + self._seconds
        while len(self._values) > MOST_REMEMBERED or self._values[next(iter(self._values))][1] < now:
            del self._values[next(iter(self._values))]

    def get(self, key: KeyScope) -> T | None:
        found = self._values.get(key)
        return None if found is None else found[0]


def _name(request: Request) -> KeyScope:
    """Return the key under which this leader remembers a write of files. It names no session, since a data node repeats
    a write without a session.
    """
    return (request.store or "", "", request.attempt.key or "")


def _fingerprint(request: Request, accepted: Accepted) -> str:
    """Return the fingerprint of a request, which the record that keeps the answer usually has already."""
    for record in accepted.changes.values():
        if type(record) is TreePath and record.answered and record.answered[-1].key == request.attempt.key:
            return record.answered[-1].fingerprint
    return request.fingerprint()


def _end_alike(pending: PendingRequest, end: Served | Exception) -> None:
    """End a joined attempt as the submitted attempt ended. A success is marked as a replay."""
    if isinstance(end, Exception):
        pending.fail(end)
        return
    decision = end.decision
    if isinstance(decision, Accepted):
        decision = replace(decision, answer=replace(decision.answer, replayed=True))
    pending.serve(decision, end.revision, end.term)
