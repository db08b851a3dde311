"""What one answer, or the lack of one, means for the call."""

from __future__ import annotations

import json
from dataclasses import dataclass

from milepost.core.effects import Answer, Lost
from milepost.errors import ConnectionFailed, DeadlineExceeded, MilepostError, Problem, Unavailable, problem_from
from milepost.wire import PROBLEM_MEDIA_TYPE, PROBLEM_TYPE_PREFIX, Code, Header, Outcome

_ELSEWHERE = frozenset({Code.NO_LEADER, Code.SHUTTING_DOWN})
_GATEWAY = frozenset({502, 503, 504})
_CODE_OF_STATUS = {
    400: Code.INVALID_REQUEST,
    401: Code.UNAUTHENTICATED,
    403: Code.FORBIDDEN,
    404: Code.NOT_EXIST,
    405: Code.METHOD_NOT_ALLOWED,
    406: Code.NOT_ACCEPTABLE,
    412: Code.VERSION_MISMATCH,
    413: Code.TOO_LARGE,
    415: Code.UNSUPPORTED_MEDIA_TYPE,
    416: Code.RANGE_NOT_SATISFIABLE,
    422: Code.INVALID_REQUEST,
    429: Code.TOO_MANY_REQUESTS,
    501: Code.NOT_SUPPORTED,
    507: Code.STORAGE_FULL,
}


@dataclass(frozen=True)
class Done:
    """The service did it."""

    answer: Answer


@dataclass(frozen=True)
class Redirected:
    """Another replica leads."""

    location: str


@dataclass(frozen=True)
class Refused:
    """A definitive answer; asking again would not change it. ``vouched``: the service itself says so in a document."""

    problem: Problem
    vouched: bool = True


@dataclass(frozen=True)
class Again:
    """Worth another attempt: on another replica (``elsewhere``) and not before ``after`` seconds.

    ``doubt``: this attempt may have been applied, or may yet be. ``arrived``: a replica has seen it.
    """

    error: MilepostError
    elsewhere: bool
    after: float = 0.0
    doubt: bool = False
    arrived: bool = True


Verdict = Done | Redirected | Refused | Again


def judge(result: Answer | Lost, changes: bool) -> Verdict:
    """The meaning of ``result`` for a request that ``changes`` something, or only reads."""
    if isinstance(result, Lost):
        kind = DeadlineExceeded if result.timed_out else ConnectionFailed
        return Again(kind(result.reason), elsewhere=True, doubt=changes and result.sent, arrived=result.sent)
    if 200 <= result.status < 300:
        return Done(result)
    location = result.headers.get(Header.LOCATION.lower())
    if result.status in (307, 308) and location:
        return Redirected(location)
    document = _problem_document(result)
    after = retry_after(result)
    if document is None and result.status in _GATEWAY:
        # Something between client and service answered: whether the request went through it is not known.
        error = Unavailable(Code.NO_LEADER, f"status {result.status} from a gateway", status=result.status)
        return Again(error, elsewhere=True, after=after or 0.0, doubt=changes)
    problem = problem_from(result.status, document or _made_up(result), after)
    if problem.retryable:
        doubt = changes and problem.outcome is Outcome.UNKNOWN
        return Again(problem, elsewhere=problem.code in _ELSEWHERE, after=after or 0.0, doubt=doubt)
    return Refused(problem, vouched=document is not None)


def retry_after(answer: Answer) -> float | None:
    """Seconds of Retry-After, at most an hour; None where there are none or they are a date."""
    try:
        seconds = float(answer.headers.get(Header.RETRY_AFTER.lower(), ""))
    except ValueError:
        return None
    return min(seconds, 3600.0) if seconds >= 0 else None


def _problem_document(answer: Answer) -> dict[str, object] | None:
    if not answer.headers.get("content-type", "").startswith(PROBLEM_MEDIA_TYPE):
        return None
    try:
        document = json.loads(answer.body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _made_up(answer: Answer) -> dict[str, object]:
    """The problem behind a bare status: answers to HEAD have no body, and not all that answers is the service."""
    code = _CODE_OF_STATUS.get(answer.status, Code.INTERNAL)
    return {"type": PROBLEM_TYPE_PREFIX + code.value, "detail": f"status {answer.status} without a problem document"}
