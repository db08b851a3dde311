"""Makes problems: the errors, each with a code, that the service answers. They are the SDK's typed errors, so that
service and SDK share one definition of each code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from milepost.errors import ERROR_OF, Problem
from milepost.wire import Code, Outcome
from milepost_server.rules.decisions import Refused

RETRY_AFTER_SECONDS = 1.0
_SAY_WHEN = frozenset(
    {
        Code.NO_LEADER,
        Code.STORAGE_UNAVAILABLE,
        Code.DISCARD_FAILED,
        Code.OUTCOME_UNKNOWN,
        Code.SHUTTING_DOWN,
        Code.TOO_MANY_REQUESTS,
    }
)


def problem(
    code: Code,
    detail: str,
    *,
    retryable: bool | None = None,
    outcome: Outcome | None = None,
    extras: Mapping[str, Any] | None = None,
) -> Problem:
    """Return the typed error for ``code``. None for ``retryable`` or ``outcome`` means the usual value of the code."""
    retry_after = RETRY_AFTER_SECONDS if code in _SAY_WHEN else None
    return ERROR_OF[code](code, detail, retryable=retryable, outcome=outcome, extras=extras, retry_after=retry_after)


def refusal(refused: Refused) -> Problem:
    """Return the typed error that answers a request which the rules (`milepost_server.rules`) refused."""
    return problem(
        refused.code,
        refused.detail,
        retryable=refused.retryable,
        outcome=refused.outcome,
        extras=refused.extras,
    )


def noted(error: Problem, note: str) -> Problem:
    """Return a copy of a problem with a note added to its detail.

    The problem itself is not changed, since it may be the answer to other requests too.
    """
    return ERROR_OF[error.code](
        error.code,
        f"{error.detail} ({note})",
        status=error.status,
        retryable=error.retryable,
        outcome=error.outcome,
        extras=error.extras,
        retry_after=error.retry_after,
    )
