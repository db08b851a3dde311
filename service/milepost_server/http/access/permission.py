"""Checks the rights of a request's caller, which is a client or a job, and determines the epoch of the request.

The table of operations (`milepost.operations`) names the right that each call needs. If the path of a call names no
store, its route determines the store and checks the right on it.
"""

from __future__ import annotations

from typing import Final

from milepost.errors import Problem
from milepost.operations.operation import Right
from milepost.wire import Code, Header, Outcome
from milepost_server.basics.problems import problem
from milepost_server.http.access.job_tokens import Job
from milepost_server.http.access.tokens import Principal
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
"""For each right, the text of a refusal: what the client may not do, and which role it lacks."""

RIGHTS_OF_JOBS: Final = frozenset({Right.READ_OF_JOB, Right.WRITE_OF_JOB})
"""The rights that the token of a job gives, in the store of that job."""

MOST_CHARACTERS: Final = 200
"""The most characters of a store's name that a refusal quotes; a longer text is cut."""


def require(request: HttpRequest, right: Right, store: str | None = None) -> None:
    """Raise a ``forbidden`` problem unless the caller has this right; on ``store``, if the call is about a store."""
    if not may(request, right, store):
        what = SHORT[right].format(store=repr((store or "")[:MOST_CHARACTERS]))
        raise problem(Code.FORBIDDEN, f"{request.token_name!r} may not {what}")


def of_retry(error: Problem, request: HttpRequest) -> Problem:
    """Return the problem to answer for ``error``, with which a request was refused. For a retry, the outcome becomes
    unknown: the client may have had the right at its first attempt, which may have been applied.

    WebHDFS has the number of the attempt in the query (`whole_files`). See
    `milepost_server.rules.replays.refuse_unsafe_retry`.
    """
    if (request.fields.get(Header.ATTEMPT) or request.query_params.get("attempt", "1")) == "1":
        return error
    return problem(error.code, error.detail, retryable=error.retryable, outcome=Outcome.UNKNOWN)


def may(request: HttpRequest, right: Right, store: str | None = None) -> bool:
    """Return whether the caller has this right. If the deployment uses no tokens, everyone has it."""
    return request.principal is None or request.principal.rights.allow(right, store)


def may_read(request: HttpRequest, store: str) -> bool:
    """Return whether the caller may see that this store exists."""
    return request.principal is None or request.principal.rights.may_read(store)


def may_look(owner: Job | Principal | None, store: str) -> bool:
    """Return whether the owner of a token may read the files of a store, as `may_use` with `Right.READ_OF_JOB`; None is
    every caller of a deployment without tokens.
    """
    if isinstance(owner, Job):
        return owner.store == store
    return owner is None or owner.rights.may_read(store)


def may_write(owner: Job | Principal | None, store: str) -> bool:
    """Return whether the owner of a token may change the files of a store, as `may_use` with `Right.WRITE_OF_JOB`; None
    is every caller of a deployment without tokens.
    """
    if isinstance(owner, Job):
        return owner.store == store
    return owner is None or owner.rights.may_write(store)


def may_use(request: HttpRequest, right: Right, store: str) -> None:
    """Raise ``forbidden`` unless the caller has this right, one of `RIGHTS_OF_JOBS`, on the store.

    A job has both rights on its own store, and neither on any other.
    """
    job = request.job
    if job is None:
        require(request, right, store)
    elif store != job.store:
        raise problem(Code.FORBIDDEN, f"the token is for what is of {job.store!r}, not for what is of {store[:60]!r}")


def epoch_under(request: HttpRequest, store: str, said: int | None) -> int | None:
    """Return the epoch of a write: that of the token if it is a job's token, else ``said``, the epoch in a header.
    Raises ``forbidden`` if token and header have different epochs, which shows a wrong configuration.
    """
    job = request.job
    if job is None:
        return said
    if said not in (None, job.epoch):
        mixed = problem(Code.FORBIDDEN, f"the token is for epoch {job.epoch} of {store!r}, and the header for {said}")
        raise of_retry(mixed, request)  # the first attempt may have used another token, and may have been applied
    return job.epoch
