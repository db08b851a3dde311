"""Ask whether who makes a request may do something: by the table for each call, and by routes for what they name."""

from __future__ import annotations

from typing import Final

from milepost.errors import Problem
from milepost.operations.operation import Right
from milepost.wire import Code, Header, Outcome
from milepost_server.basics.problems import problem
from milepost_server.http.requests import HttpRequest

SHORT: Final = {
    Right.READ: "read the store {store}, which takes the role reader",
    Right.WRITE: "write the store {store}, which takes the role writer",
    Right.READ_OF_JOB: "read the store {store}, which takes the role reader",
    Right.WRITE_OF_JOB: "write the store {store}, which takes the role writer",
    Right.READ_ALL: "read every store, which takes the role reader=*",
    Right.WRITE_ANY: "write any store, which takes the role writer of one",
    Right.ADMIN: "do what takes the role admin",
}
"""What a client without the right may not do, and which role it lacks, in words."""

MOST_CHARACTERS: Final = 200
"""A name has no more of them, and what is no name is cut."""


def require(request: HttpRequest, right: Right, store: str | None = None) -> None:
    """Raise a ``forbidden`` problem unless who makes the request has this right, on ``store`` if it is about one."""
    if not may(request, right, store):
        what = SHORT[right].format(store=repr((store or "")[:MOST_CHARACTERS]))
        raise problem(Code.FORBIDDEN, f"{request.token_name!r} may not {what}")


def of_retry(error: Problem, request: HttpRequest) -> Problem:
    """Return the problem of a request; that of a retry does not say that its first attempt was not applied.

    The client may have had the right then. See `milepost_server.rules.replays.doubtful`.
    """
    if request.fields.get(Header.ATTEMPT, "1") == "1":
        return error
    return problem(error.code, error.detail, retryable=error.retryable, outcome=Outcome.UNKNOWN)


def may(request: HttpRequest, right: Right, store: str | None = None) -> bool:
    """Return whether who makes the request has this right. Where the deployment has no tokens, everybody has."""
    return request.principal is None or request.principal.rights.allow(right, store)


def may_read(request: HttpRequest, store: str) -> bool:
    """Return whether who makes the request may see that this store exists."""
    return request.principal is None or request.principal.rights.may_read(store)
