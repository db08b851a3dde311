"""CREATE with ``data=true``: the bytes of the file come with the request, and the leader takes them without a redirect.

The query has what REST has in headers: the idempotency key ``key`` and the number ``attempt``, with which a client
repeats the request if it does not know the outcome, at any replica.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import QueryParams

from milepost.errors import Problem
from milepost.wire import IDEMPOTENCY_KEY, Code
from milepost_server.basics.problems import problem
from milepost_server.http.access.permission import of_retry
from milepost_server.http.bodies import file_of
from milepost_server.http.requests import HttpRequest
from milepost_server.http.webhdfs.datanode.data_node import FILE_PATIENCE_SECONDS
from milepost_server.http.webhdfs.parameters import flag, number, replaces, text
from milepost_server.model.requests.base import Attempt
from milepost_server.operations.trees import At

DATA: Final = "data"
"""The query parameter of a request that has the bytes of the file, as HttpFS calls it."""

_OF_ALL_ATTEMPTS: Final = frozenset(
    {
        Code.ALREADY_EXISTS,
        Code.CELLS_DIFFER,
        Code.FENCED,
        Code.IDEMPOTENCY_MISMATCH,
        Code.INVALID_NAME,
        Code.INVALID_REQUEST,
        Code.NOT_DIRECTORY,
        Code.NOT_EXIST,
        Code.NOT_SUPPORTED,
        Code.TOO_LARGE,
    }
)
"""The refusals that hold for earlier attempts too: the rules decide them once they have looked for an earlier answer,
or every attempt of the request gets them.
"""


def is_whole(query: QueryParams) -> bool:
    """Return whether a CREATE has the bytes of the file with it. Raises ``invalid-request`` problems, also for one that
    asks for the address of a data node, to which the client would send them.
    """
    if not flag(query, DATA):
        return False
    if flag(query, "noredirect"):
        raise problem(Code.INVALID_REQUEST, "data=true is never redirected, so noredirect=true asks for something else")
    return True


async def take(request: HttpRequest, at: At, epoch: int | None) -> None:
    """Receive the bytes of a file, and return once it is published; the request is one for which `is_whole`.

    The first attempt is refused before its body is read if the rules would refuse it. A later one is not: only its
    commit shows whether an earlier one was applied. Raises the problems of `DataNodes.take`.
    """
    query, operations = request.query_params, request.operations
    overwrite, parents = replaces(query), flag(query, "createparent", absent=True)
    attempt, begun = _attempt(query), operations.trees.begun(at, parents=parents)
    if attempt.number == 1:
        operations.publisher.check_put(at, epoch, attempt, overwrite=overwrite, begun=begun)
    await request.context.data_nodes.take(
        at,
        epoch,
        file_of(request),
        overwrite=overwrite,
        key=attempt.key,
        tries=attempt.number - 1,
        begun=begun,
        patience=FILE_PATIENCE_SECONDS,
    )


def of_attempt(error: Problem, request: HttpRequest) -> Problem:
    """Return the problem to answer for ``error``, with which a request was refused. If the request is repeated, and an
    earlier attempt may have been applied all the same, the outcome is unknown.
    """
    return error if error.code in _OF_ALL_ATTEMPTS else of_retry(error, request)


def _attempt(query: QueryParams) -> Attempt:
    key, attempt = text(query, "key"), number(query, "attempt")
    if key is not None and not IDEMPOTENCY_KEY.match(key):
        raise problem(Code.INVALID_REQUEST, "key takes 1 to 64 visible ASCII characters")
    if attempt is not None and key is None:
        raise problem(Code.INVALID_REQUEST, "attempt needs key as well")
    if attempt == 0:
        raise problem(Code.INVALID_REQUEST, "attempt takes a whole number, 1 or more")
    return Attempt("", key, attempt or 1)
