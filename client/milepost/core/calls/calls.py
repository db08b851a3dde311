"""One call to the service: attempts under one idempotency key and one deadline, until an answer is definitive."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from milepost.core.body import SourceFailed
from milepost.core.calls.credentials import AsyncToken, Credentials
from milepost.core.calls.judgement import Again, Done, History, Redirected, Refused, Verdict, judge
from milepost.core.calls.outages import OUTAGES, Reports
from milepost.core.calls.replicas import Replicas, Round
from milepost.core.calls.request import Request
from milepost.core.calls.trace import Trace
from milepost.core.clock import Clock, monotonic
from milepost.core.direct import Direct
from milepost.core.effects import Answer, Lost, Operation, Send, Sleep
from milepost.errors import AccessDenied, ConnectionFailed, Problem
from milepost.wire import Code, Header, digest_header

# The seconds of one attempt, beside the time for its bytes. They are fewer than those of a leader's lease, so that a
# client tries another replica before the lease of a paused leader ends.
ATTEMPT_TIMEOUT = 3.0
PROBE_TIMEOUT = 1.0  # seconds to wait for a probe of a replica that did not answer a large body
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
# The seconds between two rounds in search of a leader. The pause grows with the length of the search.
SEARCH_PAUSE = 0.25
SEARCH_PAUSE_PER_SECOND = 0.05
# Retry-After counts whole seconds, so no replica can ask for less. A client does not wait that long if another replica
# may lead.
LEAST_RETRY_AFTER = 1.0
# Each attempt gets, in addition to attempt_timeout, the time that its bytes take at this rate.
SLOWEST_BYTES_PER_SECOND = 1024 * 1024
KEY_LIFETIME = 9 * 60.0  # the service keeps a key for ten minutes; after that it could apply a retry a second time

T = TypeVar("T")


@dataclass
class Key:
    """An idempotency key, by which the service recognizes the requests that are one change.

    ``since`` is the monotonic time of its creation: no request with the key was sent earlier. ``arrived`` counts the
    requests with the key that reached the service.
    """

    id: str
    since: float
    arrived: int = 0


@dataclass(frozen=True)
class Reply(Generic[T]):
    """The answer of a call.

    ``value`` is what the request's reader made of the answer. ``began`` is the monotonic time at which the answered
    attempt began. If the service repeats the answer of an earlier attempt, ``began`` is the time of the first one
    (`Key.since`).
    """

    answer: Answer
    value: T
    began: float


class Caller:
    """Sends requests to the replicas of one service and returns their answers. ``cell`` is the service's name among
    several cells, empty if it is no cell.
    """

    cell = ""

    def __init__(
        self,
        replicas: Replicas,
        *,
        timeout: float = 30.0,
        token: AsyncToken | None = None,
        direct_above: int | None = None,
        clock: Clock = monotonic,
        random: Random | None = None,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        if not timeout > 0:  # NaN is not above 0 either
            raise ValueError("timeout must be a number of seconds above 0")
        self.replicas = replicas
        self.timeout = timeout
        self.clock = clock
        self.new_id = new_id
        self.direct = Direct(direct_above, clock)
        self._reports = Reports(clock)
        self._credentials = Credentials(token)
        self._random = random or Random()

    @property
    def each(self) -> Sequence[Caller]:
        """The callers of all deployments: this one itself, or those of all cells (`milepost.core.calls.cells`)."""
        return (self,)

    @property
    def attempt_timeout(self) -> float:
        """Seconds that one attempt may take, in addition to the time for its bytes and the time for which the request
        lets the service wait.
        """
        return min(ATTEMPT_TIMEOUT, max(1.0, self.timeout / 3))

    def new_key(self) -> Key:
        """Make an idempotency key for one change. If the change needs several calls, all of them share the key."""
        return Key(self.new_id(), self.clock())

    def call(
        self,
        request: Request[T],
        *,
        timeout: float | None = None,
        begin_within: float | None = None,
        attempt_timeout: float | None = None,
        stream: bool = False,
        key: Key | None = None,
        final: Collection[Code] = (),
    ) -> Operation[Reply[T]]:
        """Send ``request`` and return its answer within ``timeout`` seconds (default: the client's); the last attempt
        begins within ``begin_within`` seconds (default: the whole timeout).

        One attempt may take ``attempt_timeout`` seconds, beside the wait that the request asks for and the time for its
        bytes; then the call tries another replica. A change is sent under ``key``, or under a new one. A problem whose
        code is in ``final`` ends the call, even if a retry might help. If the token comes from a function, a call that
        is refused with 401 is repeated once. If no replica has ever answered this client and TLS fails with each of
        them (for example because one side does not trust the other's certificate), the call fails without waiting,
        because waiting does not change settings. Raises the errors of `milepost.errors`: a refusal unchanged,
        `OutcomeUnknown` if an attempt may have been applied, otherwise `Unavailable`, `ConnectionFailed` or
        `DeadlineExceeded`.
        """
        started = self.clock()
        deadline = started + (self.timeout if timeout is None else timeout)
        until = deadline if begin_within is None else min(deadline, started + begin_within)
        attempt_timeout = self.attempt_timeout if attempt_timeout is None else attempt_timeout
        key = key or (self.new_key() if request.changes else None)
        history = History(request.changes)
        trace = Trace(self.clock)
        round_ = self.replicas.round()
        renewed = False
        probing = False
        pauses = 0
        after = 0.0
        # True while no replica has ever answered, and no attempt failed for another reason than TLS settings: the call
        # then fails at once, because a retry would fail in the same way.
        misconfigured = not self._reports.answered_once
        while True:
            if self.clock() < until and (probing or self._must_scout(request)):
                yield from self._scout(request, deadline, history, PROBE_TIMEOUT if probing else None)
                round_ = self.replicas.round()
            try:
                credentials = yield from self._credentials.headers()
            except AccessDenied as denied:
                raise history.refusal(denied) from denied.__cause__
            began = self.clock()
            if began >= until:
                raise history.exhausted("the deadline passed")
            if key is not None and history.in_doubt and began >= key.since + KEY_LIFETIME:
                raise history.exhausted("the service may have forgotten the idempotency key by now")
            headers = {**request.headers, **credentials, **_length_and_digest(request), **trace.header()}
            if key is not None:
                headers |= {Header.IDEMPOTENCY_KEY: key.id, Header.ATTEMPT: str(key.arrived + history.arrived + 1)}
            longest = _longest(request, attempt_timeout)
            asked = round_.target
            result = yield Send(
                method=request.method,
                url=asked + request.path,
                headers=headers,
                body=request.body,
                timeout=min(deadline - began, longest),
                stream=stream,
            )
            if isinstance(result, SourceFailed):
                raise history.source_failed(result)
            # A leader that received all bytes and did not answer may be waiting for its storage. A small request shows
            # whether the leader still answers.
            probing = isinstance(result, Lost) and result.timed_out and result.sent and _is_large(request)
            if isinstance(result, Lost) and (result.timed_out or not result.sent) and not probing:
                round_.silent(min(attempt_timeout, attempt_timeout + self.clock() - began - longest))
            verdict = _followed(round_, judge(result, request), request)
            trace.ended(asked, request, result, verdict)
            if verdict is None:
                continue
            if isinstance(verdict, Refused) and not renewed and self._credentials.may_have_changed(verdict.problem):
                renewed = True
                if request.body is None or not request.body.spent:
                    continue  # a retry is safe: a request that got 401 was not applied
            if isinstance(verdict, (Done, Refused)) and not request.local:
                round_.answered()
                self._reports.answered(asked, started)
            if isinstance(verdict, Done):
                if key is not None and Header.REPLAYED.lower() in verdict.answer.headers:
                    began = key.since  # a replayed answer may be that of the first attempt under this key
                return Reply(verdict.answer, verdict.value, began)
            if isinstance(verdict, Refused):
                if key is not None:
                    key.arrived += history.arrived + 1
                error = history.refusal(verdict.problem)
                raise error from error.__cause__
            now = self.clock()
            call = f"{request.method} {request.path}"
            misconfigured = misconfigured and isinstance(result, Lost) and result.untrusted
            history.note(verdict, cut_off=isinstance(result, Lost) and now >= deadline)
            if isinstance(verdict.error, Problem) and verdict.error.code in final:
                raise history.exhausted("this answer is not waited out")
            if request.body is not None and request.body.spent:
                raise history.exhausted("the state could be sent only once")
            if probing:
                self._reports.retry(call, asked, verdict.error, began, "asking whether it answers at all")
                continue
            if not (verdict.elsewhere and verdict.after <= LEAST_RETRY_AFTER):
                after = max(after, verdict.after)
            left = max(0.0, until - now)
            if misconfigured:
                if round_.next():
                    continue
                raise history.exhausted("no replica and this client agree on TLS")
            if verdict.elsewhere and round_.next():
                self._reports.retry(call, asked, verdict.error, began, f"asking {round_.target}")
                continue
            if after > left:
                raise history.exhausted("the service asks for more time than is left")
            round_.again()
            rest = _longest_search_pause(now - started) if verdict.elsewhere else LONGEST_PAUSE
            pause = min(after + self.pause(pauses, rest), left)
            then = f"asking again in {pause:.2f} s, for {left:.0f} s at most"
            self._reports.retry(call, asked, verdict.error, began, then)
            yield Sleep(pause)
            pauses += 1
            after = 0.0

    def _must_scout(self, request: Request[Any]) -> bool:
        """Return whether to find the leader with a small request before sending the body: the body can be sent only
        once, or is too large to be sent to a follower in vain.

        A replica that refuses a large body may also close the connection while the bytes arrive, and then its redirect
        is lost.
        """
        body = request.body
        return body is not None and (body.once or not (body.small or self.replicas.leader))

    def _scout(
        self, request: Request[Any], deadline: float, history: History, attempt_timeout: float | None
    ) -> Operation[None]:
        head, left = Request[Any]("HEAD", request.path), deadline - self.clock()
        try:
            yield from self.call(head, timeout=left, attempt_timeout=attempt_timeout)
        except OUTAGES as error:
            cut_off = self.clock() >= deadline
            history.note(Again(error, elsewhere=True, arrived=False), cut_off=cut_off)
            why = "the deadline passed" if cut_off or history.answered else "the leader could not be found"
            raise history.exhausted(why) from error
        except Problem:
            return  # the probe found the leader; the bytes may be sent now

    def pause(self, pauses: int, longest: float) -> float:
        """Return the seconds to pause before the next attempt, after ``pauses`` earlier pauses: exponential back-off
        with jitter, up to ``longest``.
        """
        return self._random.uniform(0.5, 1.0) * min(longest, FIRST_PAUSE * 2.0 ** min(pauses, 16))


def _is_large(request: Request[Any]) -> bool:
    return request.body is not None and not request.body.small


def _length_and_digest(request: Request[Any]) -> dict[str, str]:
    body = request.body
    headers = {}
    if body is not None and body.size is not None:
        headers["Content-Length"] = str(body.size)
    if body is not None and body.sha256 is not None:
        headers[Header.CONTENT_DIGEST] = digest_header(body.sha256)
    return headers


def _longest(request: Request[Any], attempt_timeout: float) -> float:
    """Return the seconds that one attempt may take, with the wait that the request asks for and the time for its bytes;
    infinity for a body of unknown size.
    """
    if request.body is None:
        return attempt_timeout + request.wait
    if request.body.size is None:
        return float("inf")
    return attempt_timeout + request.wait + request.body.size / SLOWEST_BYTES_PER_SECOND


def _longest_search_pause(searched: float) -> float:
    """Return the longest pause between two rounds in search of a leader, after ``searched`` seconds of searching."""
    return min(LONGEST_PAUSE, max(SEARCH_PAUSE, SEARCH_PAUSE_PER_SECOND * searched))


def _followed(round_: Round, verdict: Verdict, request: Request[Any]) -> Done | Refused | Again | None:
    """Return ``verdict`` unless it is a redirect to the leader. For a redirect, make the leader the next target of
    ``round_`` and return None; if the redirect cannot be followed, return an `Again`, so that the call tries another
    replica.
    """
    if not isinstance(verdict, Redirected):
        return verdict
    trouble = round_.follow(verdict.location, request.path)
    if trouble is None and request.body is not None and request.body.spent:
        trouble = (
            "the state can be sent only once, and a replica that is not the leader received it; nothing was applied"
        )
    return None if trouble is None else Again(ConnectionFailed(trouble), elsewhere=True)
