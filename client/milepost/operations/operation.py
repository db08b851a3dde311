"""The definition of an operation of the HTTP API: its call, the right that a caller needs, and its possible answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from milepost.wire import Code, Header


class Right(Enum):
    """The right that an operation needs if the deployment uses tokens.

    Operations with ``NOTHING`` are open to every client: they show no stored data, or are authenticated in another way.
    Operations with ``READ_OF_JOB`` and ``WRITE_OF_JOB`` are on the files of a job; the token that the service issues to
    the job gives these rights as well.
    """

    NOTHING = auto()
    TOKEN = auto()
    READ = auto()
    WRITE = auto()
    READ_OF_JOB = auto()
    WRITE_OF_JOB = auto()
    READ_ALL = auto()
    WRITE_ANY = auto()
    ADMIN = auto()


@dataclass(frozen=True, eq=False)
class RestOperation:
    """One operation of the HTTP API.

    ``path`` has its parameters in braces; ``{path}`` matches the rest of a path. ``success`` has the status codes of
    success, and ``answer`` the OpenAPI schema of a JSON answer. ``refusals`` are the problem codes that are specific to
    the operation; `codes` also has those that it shares with other operations. ``takes`` and ``gives`` are the headers
    of the request and of the answer. ``query`` has the query parameters with their descriptions, and ``needs`` lists
    the required ones. ``audit_name`` is the operation's name in the audit log, which omits operations without a name.
    ``described`` says whether the OpenAPI description includes the operation.
    """

    id: str
    method: str
    path: str
    right: Right
    refusals: frozenset[Code] = frozenset()
    audit_name: str = ""
    summary: str = ""
    success: tuple[int, ...] = (200,)
    answer: str | None = None
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    described: bool = True

    @property
    def of_store(self) -> bool:
        """Whether the operation is about one store, which is the first parameter of its path."""
        return self.path.startswith((STORE, JOB))

    @property
    def by_leader(self) -> bool:
        """Whether only the leader answers the operation. Other replicas redirect its requests to the leader."""
        return self.path.startswith("/v1/") and self.path not in _BY_ANY_REPLICA

    @property
    def codes(self) -> frozenset[Code]:
        """The codes of all problems with which the service may answer the operation."""
        by_place = {
            Code.INVALID_NAME: "{" in self.path,
            Code.NO_LEADER: self.by_leader,
            Code.ELSEWHERE: self.of_store,
            Code.HELD: self.of_store and self.method not in ("GET", "HEAD"),
        }
        return self.refusals | EVERYWHERE | {code for code, possible in by_place.items() if possible}

    @property
    def call(self) -> str:
        """The operation's method and path. No two operations have the same."""
        return f"{self.method} {self.path}"

    def target(self, *parameters: str) -> str:
        """Return the path of a request, with ``parameters`` in place of the path's parameters, in order."""
        values = iter(parameters)
        return "/".join(next(values) if each.startswith("{") else each for each in self.path.split("/"))


EVERYWHERE: Final = frozenset({Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.INTERNAL})
"""The problem codes that every operation may answer."""
_BY_ANY_REPLICA = ("/v1/status", "/v1/whoami", "/v1/cells/{cell}/{path}")
STORE = "/v1/stores/{store}"
JOBS = "/v1/jobs"
JOB = f"{JOBS}/{{store}}"

KEYED = (Header.IDEMPOTENCY_KEY, Header.ATTEMPT)
_ACTING = (Header.SESSION, *KEYED)
FILE_WRITING = (Header.EPOCH, *KEYED)
PAGED = {"limit": "The largest number of entries on a page.", "token": "The value of `next` on the page before."}

FIELDS = (Code.INVALID_REQUEST, Code.INCOMPLETE_BODY, Code.TOO_LARGE)
"""The problem codes of operations whose request has a JSON body, or must have none."""
COMMITS = (
    *FIELDS,
    Code.IDEMPOTENCY_MISMATCH,
    Code.CORRUPT,
    Code.TOO_MANY_REQUESTS,
    Code.STORAGE_UNAVAILABLE,
    Code.OUTCOME_UNKNOWN,
    Code.SHUTTING_DOWN,
    Code.STORAGE_FULL,
)
_CHANGES = (*COMMITS, Code.CELLS_DIFFER, Code.SESSION_REQUIRED, Code.SESSION_UNKNOWN, Code.SESSION_EXPIRED)
RECEIVES_BYTES = (Code.DIGEST_MISMATCH, Code.UPLOAD_UNKNOWN)
READS_BYTES = (
    Code.NOT_EXIST,
    Code.VERSION_MISMATCH,
    Code.RANGE_NOT_SATISFIABLE,
    Code.BLOB_MISSING,
    Code.CORRUPT,
    Code.INVALID_REQUEST,
    Code.NOT_ACCEPTABLE,
    Code.STORAGE_UNAVAILABLE,
)


def operation(
    id: str, method: str, path: str, right: Right, refusals: Iterable[Code] = (), **others: Any
) -> RestOperation:
    """Return a new operation. ``others`` are further fields of `RestOperation`; ``summary`` defaults to ``id``."""
    return RestOperation(id, method, path, right, frozenset(refusals), **{"summary": id, **others})


def read(
    id: str, path: str, refusals: Iterable[Code] = (), *, right: Right = Right.READ, **others: Any
) -> RestOperation:
    """Return a new operation that reads a store and answers with JSON."""
    return operation(id, "GET", path, right, {*refusals, Code.NOT_ACCEPTABLE}, **others)


def change(
    id: str,
    method: str,
    path: str,
    refusals: Iterable[Code] = (),
    *,
    fenced: bool = False,
    takes: Iterable[str] = (),
    gives: Iterable[str] = (),
    **others: Any,
) -> RestOperation:
    """Return a new operation that changes a store and whose requests name a session.

    With ``fenced``, its requests also carry an epoch. The service refuses a request whose epoch is not the store's
    current one.
    """
    return operation(
        id,
        method,
        path,
        Right.WRITE,
        {*_CHANGES, *refusals, *([Code.FENCED] if fenced else [])},
        takes=(*_ACTING, *([Header.EPOCH] if fenced else []), *takes),
        gives=(*gives, Header.REPLAYED),
        **others,
    )
