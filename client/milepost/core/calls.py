"""One call: attempts under one key and one deadline, until an answer is definitive."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from milepost.core.body import Body, SourceFailed
from milepost.core.clock import Clock, monotonic
from milepost.core.effects import Answer, Operation, Send, Sleep
from milepost.core.history import History
from milepost.core.judgement import Again, Done, Redirected, Refused, Verdict, judge
from milepost.core.replicas import Replicas, Round
from milepost.core.request import Request
from milepost.errors import ConnectionFailed
from milepost.wire import Header, digest_header

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
KEY_LIFETIME = 9 * 60.0  # the service remembers a key for ten minutes; a retry after that could be applied twice


@dataclass(frozen=True)
class Reply:
    """The answer of a call, and when (monotonic) the attempt began that it surely comes after."""

    answer: Answer
    began: float


class Caller:
    """Runs requests against the replicas of one service."""

    def __init__(
        self,
        replicas: Replicas,
        *,
        timeout: float = 30.0,
        token: str | Callable[[], str] | None = None,
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
        self._token = token
        self._random = random or Random()

    def call(
        self, request: Request, *, timeout: float | None = None, patience: float | None = None, stream: bool = False
    ) -> Operation[Reply]:
        """Have ``request`` answered within ``timeout`` seconds (default: the client's).

        One attempt may take ``patience`` seconds beside the wait that the request asks for; then another replica is
        asked. Raises what the module `milepost.errors` draws: a refusal as it is, `OutcomeUnknown` where an attempt
        may have been applied, else `Unavailable`, `ConnectionFailed` or `DeadlineExceeded`.
        """
        started = self.clock()
        deadline = started + (self.timeout if timeout is None else timeout)
        patience = request.wait + (min(10.0, max(1.0, self.timeout / 3)) if patience is None else patience)
        key = self.new_id() if request.changes else None
        history = History(request.changes)
        round_ = self.replicas.round()
        pauses = 0
        longest_after = 0.0
        while True:
            began = self.clock()
            if began >= deadline:
                raise history.exhausted("the deadline passed")
            if history.in_doubt and began >= started + KEY_LIFETIME:
                raise history.exhausted("the service may have forgotten the key by now")
            if request.body is not None and request.body.spent:
                raise history.exhausted("the state could be sent only once")
            left = deadline - began
            result = yield Send(
                method=request.method,
                url=round_.target + request.path,
                headers=self._headers(request, key, history.arrived + 1),
                body=request.body,
                timeout=left if _is_large(request.body) else min(left, patience),
                stream=stream,
            )
            if isinstance(result, SourceFailed):
                raise history.source_failed(result)
            verdict = _followed(round_, judge(result, request.changes), request)
            if verdict is None:
                continue
            if isinstance(verdict, (Done, Refused)) and not request.local:
                round_.answered()
            if isinstance(verdict, Done):
                replayed = Header.REPLAYED.lower() in verdict.answer.headers
                return Reply(verdict.answer, started if replayed else began)
            if isinstance(verdict, Refused):
                error = history.refusal(verdict.problem)
                raise error from error.__cause__
            history.note(verdict)
            longest_after = max(longest_after, verdict.after)
            if verdict.elsewhere and round_.next():
                continue
            left = deadline - self.clock()
            if longest_after > left:
                raise history.exhausted("the service asks for more time than is left")
            round_.again()
            yield Sleep(min(self._pause(pauses, longest_after), max(0.0, left)))
            pauses += 1
            longest_after = 0.0

    def _pause(self, pauses: int, at_least: float) -> float:
        """Exponential back-off with jitter, on top of what the service asked for."""
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(pauses, 16))
        return at_least + self._random.uniform(0.5, 1.0) * longest

    def _headers(self, request: Request, key: str | None, attempt: int) -> dict[str, str]:
        headers = {**request.headers}
        if self._token is not None:
            token = self._token if isinstance(self._token, str) else self._token()
            headers["Authorization"] = f"Bearer {_checked(token)}"
        if key is not None:
            headers[Header.IDEMPOTENCY_KEY] = key
            headers[Header.ATTEMPT] = str(attempt)
        body = request.body
        if body is not None and body.size is not None:
            headers["Content-Length"] = str(body.size)
        if body is not None and body.sha256 is not None:
            headers[Header.CONTENT_DIGEST] = digest_header(body.sha256)
        return headers


def _is_large(body: Body | None) -> bool:
    return body is not None and not body.small


def _followed(round_: Round, verdict: Verdict, request: Request) -> Done | Refused | Again | None:
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
