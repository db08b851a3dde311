"""Translates problems into the Java exceptions that Hadoop's client raises."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from starlette.responses import Response

from milepost.errors import Problem
from milepost.wire import Code, Header, Outcome
from milepost_server.http.replies import closing


class JavaException(NamedTuple):
    """The name of a Java exception's class, and the HTTP status with which HDFS answers it."""

    name: str
    status: int = 403

    @property
    def short(self) -> str:
        """The name of the class without its package."""
        return self.name.rpartition(".")[2]


_MISSING: Final = JavaException("java.io.FileNotFoundException", 404)
_EXISTS: Final = JavaException("org.apache.hadoop.fs.FileAlreadyExistsException")
_DENIED: Final = JavaException("org.apache.hadoop.security.AccessControlException")
_ELSEWHERE: Final = JavaException("org.apache.hadoop.ipc.StandbyException")
_LATER: Final = JavaException("org.apache.hadoop.ipc.RetriableException")
_FAILED: Final = JavaException("java.io.IOException")
_WRONG: Final = JavaException("java.lang.IllegalArgumentException", 400)

EXCEPTIONS: Final[dict[Code, JavaException]] = {
    Code.NOT_EXIST: _MISSING,
    Code.NO_ROUTE: _MISSING,
    Code.BLOB_MISSING: _FAILED,
    Code.ALREADY_EXISTS: _EXISTS,
    Code.NOT_DIRECTORY: JavaException("org.apache.hadoop.fs.ParentNotDirectoryException"),
    Code.NOT_EMPTY: JavaException("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"),
    # Hadoop's client does not retry after an AccessControlException, so a fenced driver and its executors end at once.
    Code.FENCED: _DENIED,
    Code.FORBIDDEN: _DENIED,
    Code.ELSEWHERE: _DENIED,
    # Hadoop's client retries after StandbyException and RetriableException, also at another replica, for about half a
    # minute.
    Code.NO_LEADER: _ELSEWHERE,
    Code.SHUTTING_DOWN: _ELSEWHERE,
    Code.TOO_MANY_REQUESTS: _LATER,
    Code.STORAGE_UNAVAILABLE: _LATER,
    Code.INVALID_NAME: _WRONG,
    Code.INVALID_REQUEST: _WRONG,
    # IOException is used here since Hadoop's shell prints it on one line, and any other exception with its stack trace.
    Code.NOT_SUPPORTED: _FAILED,
    Code.METHOD_NOT_ALLOWED: _FAILED,
    Code.RANGE_NOT_SATISFIABLE: _FAILED,
    Code.STORAGE_FULL: _FAILED,
}
"""The Java exception for each problem. Any other problem is an IOException, which Hadoop's client does not retry."""


def remote_exception(error: Problem, headers: dict[str, str] | None = None) -> Response:
    """Return the WebHDFS answer for a problem: a Java exception as JSON. ``headers`` are added to it.

    The answer has no Content-Type: if it had one, the Hadoop client that Spark ships would load a class that is missing
    there. The message of a StandbyException ends with the name of the exception, since Hadoop's client only then asks
    the next replica.

    A header says so if the outcome is unknown: WebHDFS itself has no word for that.
    """
    status, body = status_and_body(error.code, error.detail)
    sent = {**(headers or {}), **closing(error)}
    if error.outcome is Outcome.UNKNOWN:
        sent[Header.OUTCOME] = Outcome.UNKNOWN.value
    if error.code is Code.UNAUTHENTICATED:
        status, sent["WWW-Authenticate"] = error.status, "Bearer"
    return Response(body, status, sent)


def status_and_body(code: Code, detail: str) -> tuple[int, bytes]:
    """Return the HTTP status and the body of the answer for a problem with this code."""
    exception = EXCEPTIONS.get(code, _FAILED)
    message = f"{detail}. {exception.short}" if exception is _ELSEWHERE else detail
    body = {"exception": exception.short, "javaClassName": exception.name, "message": message}
    return exception.status, msgspec.json.encode({"RemoteException": body})
