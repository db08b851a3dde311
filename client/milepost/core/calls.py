"""One call: attempts under one key and one deadline, until an answer is definitive."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from milepost.core.body import SourceFailed
from milepost.core.clock import Clock, monotonic
from milepost.core.direct import Direct
from milepost.core.effects import Answer, Lost, Operation, Send, Sleep
from milepost.core.history import History
from milepost.core.judgement import Again, Done, Redirected, Refused, Verdict, judge
from milepost.core.outages import OUTAGES
from milepost.core.replicas import Replicas, Round
from milepost.core.reports import Reports
from milepost.core.request import Request
from milepost.errors import AccessDenied, ConnectionFailed, Problem
from milepost.wire import Code, Header, digest_header

ATTEMPT_TIMEOUT = 3.0  # of one attempt beside its bytes: less than a leader's lease, so a paused one is left in time
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
SEARCH_PAUSE = 0.25  # while a leader is looked for, which may be there at any moment; more only after a long search
SEARCH_PAUSE_PER_SECOND = 0.05
LEAST_RETRY_AFTER = 1.0  # the header has nothing between none and this, too long where another replica may lead
SLOWEST_BYTES_PER_SECOND = 1024 * 1024  # what an attempt may take for its bytes, beside its attempt_timeout
KEY_LIFETIME = 9 * 60.0  # the service remembers a key for ten minutes; a retry after that could be applied twice

T = TypeVar("T")

Token = str | Callable[[], str]
"""A bearer token, or what is called for one at each attempt."""


@dataclass
class Key:
    """An idempotency key, since when (monotonic) the service may know it, and how many requests under it arrived."""

    id: str
    since: float
    arrived: int = 0


@dataclass(frozen=True)
class Reply(Generic[T]):
    """The answer of a call, what was read of it, and when (monotonic) the attempt began that it surely comes after."""

    answer: Answer
    value: T
    began: float


class Caller:
    """Runs requests against the replicas of one service."""

    def __init__(
        self,
        replicas: Replicas,
        *,
        timeout: float = 30.0,
        token: Token | None = None,
        direct_above: int | None = None,
        clock: Clock = monotonic,
        random: Random | None = None,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        if timeout <= 0:
            raise ValueError("a timeout is a number of seconds above 0")
        self.replicas = replicas
        self.timeout = timeout
        self.clock = clock
        self.new_id = new_id
        self.direct = Direct(direct_above, clock)
        self._reports = Reports(clock)
        self._token = _checked(token) if isinstance(token, str) else token
        self._random = random or Random()

    @property
    def attempt_timeout(self) -> float:
        """Seconds that one attempt may take, beside its bytes and the wait that it asks for."""
        return min(ATTEMPT_TIMEOUT, max(1.0, self.timeout / 3))

    def new_key(self) -> Key:
        """A key for one change, however many calls it takes."""
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
        """Have ``request`` answered within ``timeout`` seconds (default: the client's), the last attempt having begun
        within ``begin_within`` (default: all of them).

        One attempt may take ``attempt_timeout`` seconds, beside the wait that the request asks for and its bytes' time;
        then another replica is asked. A change goes under ``key``, or one of its own. An answer with a code in
        ``final`` ends the call, even where asking again might help. Raises what the module `milepost.errors` draws: a
        refusal as it is, `OutcomeUnknown` where an attempt may have been applied, else `Unavailable`,
        `ConnectionFailed` or `DeadlineExceeded`.
        """
        started = self.clock()
        deadline = started + (self.timeout if timeout is None else timeout)
        until = deadline if begin_within is None else min(deadline, started + begin_within)
        attempt_timeout = self.attempt_timeout if attempt_timeout is None else attempt_timeout
        key = key or (self.new_key() if request.changes else None)
        history = History(request.changes)
        round_ = self.replicas.round()
        pauses = 0
        after = 0.0
        while True:
            if self._must_scout(request):
                yield from self._scout(request, deadline, history)
                round_ = self.replicas.round()
            began = self.clock()
            if began >= until:
                raise history.exhausted("the deadline passed")
            if key is not None and history.in_doubt and began >= key.since + KEY_LIFETIME:
                raise history.exhausted("the service may have forgotten the key by now")
            headers = {**request.headers, **self._credentials(history), **_length_and_digest(request)}
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
            if isinstance(result, Lost) and (result.timed_out or not result.sent):
                round_.silent(min(attempt_timeout, attempt_timeout + self.clock() - began - longest))
            verdict = _followed(round_, judge(result, request), request)
            if verdict is None:
                continue
            if isinstance(verdict, (Done, Refused)) and not request.local:
                round_.answered()
                self._reports.answered(asked, started)
            if isinstance(verdict, Done):
                if key is not None and Header.REPLAYED.lower() in verdict.answer.headers:
                    began = key.since  # it may be the answer to the very first attempt
                return Reply(verdict.answer, verdict.value, began)
            if isinstance(verdict, Refused):
                if key is not None:
                    key.arrived += history.arrived + 1
                error = history.refusal(verdict.problem)
                raise error from error.__cause__
            now = self.clock()
            history.note(verdict, cut_off=isinstance(result, Lost) and now >= deadline)
            if isinstance(verdict.error, Problem) and verdict.error.code in final:
                raise history.exhausted("it is not waited for")
            if request.body is not None and request.body.spent:
                raise history.exhausted("the state could be sent only once")
            if not (verdict.elsewhere and verdict.after <= LEAST_RETRY_AFTER):
                after = max(after, verdict.after)
            left = max(0.0, until - now)
            call = f"{request.method} {request.path}"
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
        """Whether the leader is to be found before the bytes set out: they come only once, or are dear to send in vain.

        A replica that turns many bytes away may also close the connection under them, and its redirect is lost.
        """
        body = request.body
        return body is not None and (body.once or not (body.small or self.replicas.leader))

    def _scout(self, request: Request[Any], deadline: float, history: History) -> Operation[None]:
        try:
            yield from self.call(Request[Any]("HEAD", request.path), timeout=deadline - self.clock())
        except OUTAGES as error:
            history.note(Again(error, elsewhere=True, arrived=False))
            raise history.exhausted("the leader could not be found") from error
        except Problem:
            return  # somebody who leads answered; what it says to the bytes themselves counts

    def pause(self, pauses: int, longest: float) -> float:
        """Exponential back-off with jitter: seconds to rest after so many ``pauses``, ``longest`` at most."""
        return self._random.uniform(0.5, 1.0) * min(longest, FIRST_PAUSE * 2.0 ** min(pauses, 16))

    def _credentials(self, history: History) -> dict[str, str]:
        if self._token is None:
            return {}
        if isinstance(self._token, str):
            return {"Authorization": f"Bearer {self._token}"}
        try:
            return {"Authorization": f"Bearer {_checked(self._token())}"}
        except Exception as error:
            denied = AccessDenied(Code.UNAUTHENTICATED, f"no token could be had: {type(error).__name__}")
            raise history.refusal(denied) from error


def _length_and_digest(request: Request[Any]) -> dict[str, str]:
    body = request.body
    headers = {}
    if body is not None and body.size is not None:
        headers["Content-Length"] = str(body.size)
    if body is not None and body.sha256 is not None:
        headers[Header.CONTENT_DIGEST] = digest_header(body.sha256)
    return headers


def _longest(request: Request[Any], attempt_timeout: float) -> float:
    """How many seconds one attempt may take; as many as there are for a body of unknown size."""
    if request.body is None:
        return attempt_timeout + request.wait
    if request.body.size is None:
        return float("inf")
    return attempt_timeout + request.wait + request.body.size / SLOWEST_BYTES_PER_SECOND


def _longest_search_pause(searched: float) -> float:
    """Seconds to rest at most between two rounds in search of a leader, after so many seconds of it."""
    return min(LONGEST_PAUSE, max(SEARCH_PAUSE, SEARCH_PAUSE_PER_SECOND * searched))


def _followed(round_: Round, verdict: Verdict, request: Request[Any]) -> Done | Refused | Again | None:
    """None where a redirect to the leader can be followed; what stands in its way counts as a useless replica."""
    if not isinstance(verdict, Redirected):
        return verdict
    trouble = round_.follow(verdict.location, request.path)
    if trouble is None and request.body is not None and request.body.spent:
        trouble = "the state can be sent only once, and a replica that does not lead took it; nothing was applied"
    return None if trouble is None else Again(ConnectionFailed(trouble), elsewhere=True)


def _checked(token: str) -> str:
    """The token itself; what cannot stand in a header is refused here, where the error does not quote it."""
    if not token.isascii() or not token.isprintable() or not token.strip():
        raise ValueError("a token is printable ASCII")
    return token
