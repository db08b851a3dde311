"""Checks whether the client of a request may use the files of a job, and determines the epoch of the request."""

from __future__ import annotations

from typing import Final

from milepost.operations.operation import Right
from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import of_retry, require
from milepost_server.http.requests import HttpRequest

RIGHTS_OF_JOBS: Final = frozenset({Right.READ_OF_JOB, Right.WRITE_OF_JOB})
"""The rights that the token of a job gives, in the store of that job."""


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
    """Return the epoch of a write: its token's, if that is a job's, else the one in a header.

    A header with another epoch than the token comes from a mixed-up configuration: ``forbidden``.
    """
    job = request.job
    if job is None:
        return said
    if said not in (None, job.epoch):
        mixed = problem(Code.FORBIDDEN, f"the token is for epoch {job.epoch} of {store!r}, and the header for {said}")
        raise of_retry(mixed, request)  # the token of the first attempt may have been an older one
    return job.epoch
