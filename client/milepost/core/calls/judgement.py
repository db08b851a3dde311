"""Judgement: what one answer, or the lack of one, means for the call, and the outcome that all attempts of the call
together imply.

The SDK trusts only answers of the service itself, which it can recognize: each carries ``Milepost-Term``, a refusal is
a complete problem document, and a success is the record that the operation expects. Any other answer (a gateway's 404,
a portal's login page, a body that was cut short or encoded) says nothing about the request, which may have reached the
service all the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from milepost.core.body import SourceFailed
from milepost.core.calls.request import Request
from milepost.core.effects import Answer, Lost
from milepost.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    MilepostError,
    OutcomeUnknown,
    Problem,
    Unavailable,
    problem_from,
)
from milepost.wire import PROBLEM_MEDIA_TYPE, PROBLEM_TYPE_PREFIX, Code, Header, Outcome

ELSEWHERE = frozenset({Code.NO_LEADER, Code.SHUTTING_DOWN})
"""The codes with which a replica that does not lead refuses a request; another replica may carry the request out."""

_ASKS_FOR_TIME = frozenset({429, 503})
_PROXY_WANTS_CREDENTIALS = 407
_TERM = re.compile(r"\d{1,20}\Z", re.ASCII)
_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_CODE_OF_STATUS = {
    400: Code.INVALID_REQUEST,
    401: Code.UNAUTHENTICATED,
    403: Code.FORBIDDEN,
    404: Code.NOT_EXIST,
    405: Code.METHOD_NOT_ALLOWED,
    406: Code.NOT_ACCEPTABLE,
    412: Code.VERSION_MISMATCH,
    413: Code.TOO_LARGE,
    416: Code.RANGE_NOT_SATISFIABLE,
    422: Code.INVALID_REQUEST,
    429: Code.TOO_MANY_REQUESTS,
    501: Code.NOT_SUPPORTED,
    503: Code.NO_LEADER,
    507: Code.STORAGE_FULL,
}

# The service decides these refusals only when it knows the outcome of the idempotency key; otherwise it answers
# "outcome unknown". So their "not applied" also holds for earlier attempts. With any other refusal (session ended,
# credentials expired) "not applied" holds only for the attempt that was refused.
_RESOLVING = frozenset(
    {
        Code.ALREADY_EXISTS,
        Code.NOT_EXIST,
        Code.VERSION_MISMATCH,
        Code.NOT_LOCKED,
        Code.FENCED,
        Code.CELLS_DIFFER,
        Code.HELD,
        Code.UPLOAD_UNKNOWN,
    }
)


@dataclass(frozen=True)
class Done:
    """The service carried the request out; ``value`` is what the request's reader made of the answer."""

    answer: Answer
    value: Any


@dataclass(frozen=True)
class Redirected:
    """The replica that answered does not lead; the leader is at the URL ``location``."""

    location: str


@dataclass(frozen=True)
class Refused:
    """The service refused the request with ``problem``, and would refuse a retry as well."""

    problem: Problem


@dataclass(frozen=True)
class Again:
    """The call should make another attempt, at another replica if ``elsewhere``, after a pause of at least ``after``
    seconds.

    ``error`` says why the attempt failed. ``doubt`` is true if the service may have applied the attempt, or may still
    apply it. ``arrived`` is true if a replica received it.
    """

    error: MilepostError
    elsewhere: bool
    after: float = 0.0
    doubt: bool = False
    arrived: bool = True


Verdict = Done | Redirected | Refused | Again


def judge(result: Answer | Lost, request: Request[Any]) -> Verdict:
    """Decide what ``result``, the answer to an attempt or its loss, means for the call: done, refused, redirected, or
    another attempt.
    """
    if isinstance(result, Lost):
        kind = DeadlineExceeded if result.timed_out else ConnectionFailed
        doubt = request.changes and result.sent
        return Again(kind(result.reason), elsewhere=True, doubt=doubt, arrived=result.sent)
    if not _TERM.match(result.headers.get(Header.TERM.lower(), "")):
        return _strange(result, request, f"without {Header.TERM}")
    if result.headers.get("content-encoding", "identity").lower() != "identity":
        return _strange(result, request, "whose bytes were encoded on the way")  # the SDK asks for identity encoding
    if 200 <= result.status < 300 or (request.located and result.status == 307 and _locates(result)):
        return _read(result, request)
    if result.status == 307 and (location := result.headers.get(Header.LOCATION.lower())):
        return Redirected(location)
    if result.status < 400:
        return _strange(result, request, "in its place")
    document = _made_up(result, request.path) if request.method == "HEAD" else _problem_document(result)
    if document is None:
        return _strange(result, request, "without a whole problem document")
    after = retry_after(result)
    problem = problem_from(result.status, document, after)
    if problem.retryable:
        doubt = request.changes and problem.outcome is Outcome.UNKNOWN
        return Again(problem, elsewhere=problem.code in ELSEWHERE, after=after or 0.0, doubt=doubt)
    return Refused(problem)


def retry_after(answer: Answer) -> float | None:
    """Return the number of seconds in the header ``Retry-After``, but at most an hour; None if the header is missing or
    is a date.
    """
    try:
        seconds = float(answer.headers.get(Header.RETRY_AFTER.lower(), ""))
    except ValueError:
        return None
    return min(seconds, 3600.0) if seconds >= 0 else None


def _read(answer: Answer, request: Request[Any]) -> Done | Again:
    try:
        return Done(answer, request.reader(answer))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        # The error does not quote the answer: text from an unknown server must not get into an error or a log.
        again = _strange(answer, request, f"whose content is not what was asked for ({type(error).__name__})")
        again.error.__cause__ = error
        return again


def _strange(answer: Answer, request: Request[Any], what: str) -> Again:
    """Return the `Again` for an answer that did not come from the service; ``what``, a part of its error message, says
    what is wrong with the answer.

    A change may have reached the service all the same; its idempotency key makes a retry safe.
    """
    detail = f"not an answer of Milepost: status {answer.status} {what}"
    if answer.via:
        asked = "was not asked" if answer.status == _PROXY_WANTS_CREDENTIALS else "may not have been asked"
        detail += f", by way of {answer.via}: the service {asked}"
    after = (retry_after(answer) or 0.0) if answer.status in _ASKS_FOR_TIME else 0.0
    error = Unavailable(Code.NO_LEADER, detail, status=answer.status)
    return Again(error, elsewhere=True, after=after, doubt=request.changes)


def _locates(answer: Answer) -> bool:
    """Return whether a redirect leads to the bytes of a state in the blob store. Such a redirect carries the digest of
    the state; a redirect to the leader does not.
    """
    return {Header.REPR_DIGEST.lower(), Header.LOCATION.lower()} <= answer.headers.keys()


def _problem_document(answer: Answer) -> dict[str, object] | None:
    if answer.headers.get("content-type", "").partition(";")[0].strip().lower() != PROBLEM_MEDIA_TYPE:
        return None
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and _is_whole(document, answer.status) else None


def _is_whole(document: dict[str, object], status: int) -> bool:
    """Return whether a problem document has all members that the service always sends.

    The problem's code may be unknown to this client, since the service may be newer.
    """
    type_, outcome = document.get("type"), document.get("outcome")
    return (
        isinstance(type_, str)
        and type_.startswith(PROBLEM_TYPE_PREFIX)
        and document.get("status") == status
        and isinstance(document.get("detail"), str)
        and isinstance(document.get("retryable"), bool)
        and isinstance(outcome, str)
        and outcome in _OUTCOMES
    )


def _made_up(answer: Answer, path: str) -> dict[str, object]:
    """Return a problem document for the status of an answer to a HEAD request for ``path``: such an answer has no body,
    so the service cannot send a document.
    """
    code = _CODE_OF_STATUS.get(answer.status, Code.INTERNAL)
    detail = f"status {answer.status} in answer to HEAD {path.partition('?')[0]}"
    if code is Code.FORBIDDEN and path.startswith("/v1/stores/"):
        detail += f", which takes the right to read the store {path.split('/')[3]!r}"
    return {"type": PROBLEM_TYPE_PREFIX + code.value, "detail": detail}


class History:
    """What the attempts of one call have shown so far; it decides which error the call raises when it gives up.

    ``answered`` is the last problem that came from the leader, and not from a replica that does not lead.
    """

    def __init__(self, changes: bool) -> None:
        self._changes = changes
        self._last: MilepostError | None = None
        self._telling: MilepostError | None = None
        self._cut_off = False
        self._problem: Problem | None = None
        self._applied: Problem | None = None
        self.answered: Problem | None = None
        self.in_doubt = False
        self.arrived = 0

    def note(self, verdict: Again, *, cut_off: bool = False) -> None:
        """Record an attempt that brought no definitive answer. ``cut_off`` is true if the call's deadline ended the
        attempt early.
        """
        self._last = verdict.error
        self._cut_off = cut_off
        if self._telling is None or not cut_off:
            self._telling = verdict.error
        self.in_doubt = self.in_doubt or verdict.doubt
        self.arrived += verdict.arrived
        if isinstance(verdict.error, Problem):
            self._problem = verdict.error
            if verdict.error.code not in ELSEWHERE:
                self.answered = verdict.error
            if verdict.error.outcome is Outcome.APPLIED:
                self._applied = verdict.error

    def refusal(self, problem: Problem) -> MilepostError:
        """Return the error for a definitive refusal: ``problem`` itself, or `OutcomeUnknown` if an earlier attempt may
        have been applied, which the refusal does not rule out.
        """
        if self._applied is not None:
            return self._applied
        unsettled = self.in_doubt and problem.code not in _RESOLVING
        if self._changes and (unsettled or problem.outcome is Outcome.UNKNOWN):
            return _unknown(f"refused with {problem}", problem)
        return problem

    def source_failed(self, failure: SourceFailed) -> Exception:
        """Return the error for a state whose source failed: the caller's own error, or `OutcomeUnknown` if an earlier
        attempt may have been applied.
        """
        if self.in_doubt:
            return _unknown(f"the state could not be sent again; last: {self._last}", self._last)
        return failure.error

    def exhausted(self, why: str) -> MilepostError:
        """Return the error for a call that gives up without a definitive answer, for the reason ``why``."""
        if self._applied is not None:
            return self._applied
        if self.in_doubt:
            before = "" if self.answered in (None, self._last) else f"; before that: {self.answered}"
            return _unknown(f"{why}; last: {self._last}{before}", self._last)
        # If the deadline left the last attempt almost no time, the error of an earlier attempt says more than its
        # timeout does.
        if self._problem is not None and (self._cut_off or isinstance(self._telling, DeadlineExceeded)):
            return self._problem
        if isinstance(self._telling, DeadlineExceeded) or self._telling is None:
            overdue = DeadlineExceeded(f"{why}; last: {self._telling or 'nothing was sent'}")
            overdue.request_id = None if self._telling is None else self._telling.request_id
            return overdue
        return self._telling


def _unknown(detail: str, cause: MilepostError | None) -> OutcomeUnknown:
    extras = cause.extras if isinstance(cause, Problem) else None
    error = OutcomeUnknown(Code.OUTCOME_UNKNOWN, detail, retryable=False, outcome=Outcome.UNKNOWN, extras=extras)
    error.request_id = None if cause is None else cause.request_id
    error.__cause__ = cause
    return error
