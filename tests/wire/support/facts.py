"""What a stranger finds on the wire, version 1: the codes and headers, and the calls of the table of operations."""

from __future__ import annotations

from dataclasses import dataclass

from milepost.operations import OPERATIONS
from milepost.operations.files import DELETE_FILES, GET_TOKEN, READ_FILES, WRITE_FILES
from milepost.operations.handles import READ_STATE
from milepost.operations.operation import RestOperation
from milepost.operations.replicas import IS_LEADER, READYZ
from milepost.wire import Code

CODES: dict[str, int] = {
    "session-required": 400,
    "incomplete-body": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not-exist": 404,
    "session-unknown": 404,
    "upload-unknown": 404,
    "no-route": 404,
    "method-not-allowed": 405,
    "not-acceptable": 406,
    "unsupported-media-type": 415,
    "range-not-satisfiable": 416,
    "already-exists": 409,
    "not-directory": 409,
    "not-empty": 409,
    "not-locked": 409,
    "held": 409,
    "fenced": 409,
    "cells-differ": 409,
    "unsafe": 409,
    "elsewhere": 421,
    "session-expired": 410,
    "blob-missing": 410,
    "compacted": 410,
    "length-required": 411,
    "too-large": 413,
    "version-mismatch": 412,
    "precondition-required": 428,
    "invalid-name": 422,
    "invalid-request": 422,
    "digest-mismatch": 422,
    "idempotency-mismatch": 422,
    "too-many-requests": 429,
    "corrupt": 500,
    "internal": 500,
    "not-supported": 501,
    "no-leader": 503,
    "storage-unavailable": 503,
    "discard-failed": 503,
    "outcome-unknown": 503,
    "shutting-down": 503,
    "storage-full": 507,
}
OUTCOMES = {"discard-failed": "applied", "outcome-unknown": "unknown"}
HEADERS = {
    "Milepost-Session",
    "Milepost-Epoch",
    "Idempotency-Key",
    "Milepost-Attempt",
    "Milepost-Replayed",
    "Milepost-Outcome",
    "Content-Digest",
    "If-Match",
    "If-None-Match",
    "ETag",
    "Repr-Digest",
    "Milepost-Act",
    "Milepost-Labels",
    "Milepost-Revision",
    "Milepost-Term",
    "X-Request-Id",
    "Retry-After",
    "Location",
}

OF_HTTP = {
    "Last-Modified",
    "Range",
    "Content-Range",
    "Accept-Ranges",
    "Last-Event-ID",
    "WWW-Authenticate",
    "Cache-Control",
}
"""Headers that mean what they always do."""

STORE = "/v1/stores/{store}"
JOBS = "/v1/jobs"
JOB = JOBS + "/{store}"
HANDLE = STORE + "/handles/{name}"
SESSION = "/v1/sessions/{session}"
JOB_FILES = STORE + "/files"
JOB_FILE = JOB_FILES + "/{path}"
FILES = "/webhdfs/v1/{path}"

OF_NO_CALL = frozenset({"no-route", "method-not-allowed", "length-required"})
"""Told of paths and methods that are not there, and kept for backends to come."""

_REFUSED_FILES = frozenset({400, 401, 403, 404})
"""The statuses of Java's exceptions."""


@dataclass(frozen=True)
class Call:
    """An operation as a stranger sees it; of what Hadoop, OAuth and probes define, with what they say of it."""

    operation: RestOperation
    success: frozenset[int]
    query: frozenset[str]
    needs: frozenset[str]

    @property
    def method(self) -> str:
        return self.operation.method

    @property
    def path(self) -> str:
        return self.operation.path

    @property
    def guarded(self) -> bool:
        """Whether it needs a token where there are tokens."""
        return self.path.startswith(("/v1/", "/webhdfs/"))

    @property
    def requires(self) -> set[str]:
        """The headers that the request must have."""
        conditional = {"If-Match"} if Code.PRECONDITION_REQUIRED in self.operation.codes else set()
        return ({"Milepost-Session"} | conditional) & set(self.operation.takes)

    @property
    def statuses(self) -> set[int]:
        """Of the answers that are no problems."""
        return {*self.success, *([307] if self.operation.by_leader else [])}

    @property
    def codes(self) -> set[str]:
        """Of the answers that are problems."""
        return {code.value for code in self.operation.codes} if self.path.startswith("/v1/") else set()

    def gives_with(self, status: int) -> set[str]:
        """The headers that an answer may have, besides those that HTTP itself needs."""
        own = self.operation.gives if status in self.success and status != 307 else ()
        about = ["Milepost-Revision"] if self.operation.of_store and status != 307 else []
        with_status = _GIVEN_WITH.get(status, ()) if self.guarded else ()
        refused = {"Milepost-Outcome"} if self.path == FILES and status in _REFUSED_FILES else ()
        sent_on = {"ETag", "Repr-Digest", "Milepost-Revision"} if (status, self.operation) == (307, READ_STATE) else ()
        return {*own, *sent_on, *about, *with_status, *refused, "Milepost-Term", "X-Request-Id", "Cache-Control"}


_GIVEN_WITH = {
    206: {"Content-Range"},
    307: {"Location"},
    401: {"WWW-Authenticate"},
    416: {"Content-Range"},
    429: {"Retry-After"},
    503: {"Retry-After"},
}

_CREATES = "overwrite createflag createparent data key attempt destination renameoptions noredirect excludedatanodes"
_BY_OTHERS: dict[RestOperation, tuple[set[int], str]] = {
    READ_FILES: ({200, 307, *_REFUSED_FILES}, "op offset length startAfter noredirect excludedatanodes"),
    WRITE_FILES: ({200, 201, 307, *_REFUSED_FILES}, f"op {_CREATES}"),
    DELETE_FILES: ({200, *_REFUSED_FILES}, "op recursive"),
    GET_TOKEN: ({200, 400, 401}, ""),
    READYZ: ({200, 503}, "verbose exclude"),
    IS_LEADER: ({200, 503}, ""),
}
"""What others than Milepost define: the statuses, and the query, in which ``op`` must be there."""


def _call(operation: RestOperation) -> Call:
    if operation in _BY_OTHERS:
        statuses, query = _BY_OTHERS[operation]
        return Call(operation, frozenset(statuses), frozenset(query.split()), frozenset({"op"} & set(query.split())))
    success = {*operation.success, *([307] if operation is READ_STATE else [])}
    return Call(operation, frozenset(success), frozenset(operation.query), frozenset(operation.needs))


CALLS = tuple(_call(operation) for operation in OPERATIONS.values() if operation.described)
