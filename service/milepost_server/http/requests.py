"""The request that an endpoint gets: with its header fields indexed by name, its caller, and the context of the
replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from starlette import requests
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from milepost.errors import Problem
from milepost_server.http.access.authentication import Authentication
from milepost_server.http.access.hosts import Hosts
from milepost_server.http.access.job_tokens import Job
from milepost_server.http.access.log import AccessLog
from milepost_server.http.access.tokens import Principal
from milepost_server.http.acts.acting import JobActs
from milepost_server.http.cells.relay import CellRelay
from milepost_server.http.connection.connections import Connections
from milepost_server.http.metrics import Metrics
from milepost_server.http.webhdfs.datanode.data_nodes import DataNodes
from milepost_server.journal import Journal
from milepost_server.operations.operations import Operations
from milepost_server.replica.leader_locator import LeaderLocator
from milepost_server.replica.probes import Probes

MOST_REMEMBERED_BYTES: Final = 256
"""The most bytes of a query that is remembered. A query with the token of a transfer is longer, so no token is kept."""


@lru_cache(1024)
def _remembered(query: bytes) -> QueryParams:
    return QueryParams(query)


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of a replica that its HTTP application uses.

    ``clock`` returns monotonic seconds. A client may send nothing for ``idle_seconds`` inside of a request, and for
    ``file_idle_seconds`` inside of the bytes of a file. ``pointers`` and ``blobs`` are URLs without secrets, for the
    status page, and ``advertise`` is the URL at which others reach this replica. A stream of events is silent for
    ``heartbeat_seconds`` at most. ``hosts`` checks the header Host if
    there are no tokens; None accepts every name. ``certified_only`` says whether clients must present a certificate.
    """

    operations: Operations
    journal: Journal
    leader_locator: LeaderLocator
    probes: Probes
    data_nodes: DataNodes
    metrics: Metrics
    cells: CellRelay
    acts: JobActs
    clock: Callable[[], float]
    idle_seconds: float
    file_idle_seconds: float
    authentication: Authentication
    name: str
    version: str
    pointers: str
    blobs: str
    advertise: str
    heartbeat_seconds: float
    access: AccessLog | None = None
    hosts: Hosts | None = None
    certified_only: bool = False
    connections: Connections = field(default_factory=Connections)


class Fields:
    """The header fields of a request, indexed by name; a look-up ignores the case of the name."""

    __slots__ = ("_by_name", "_raw", "_repeats")

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        self._raw = raw
        self._by_name = dict(raw)
        self._repeats = len(self._by_name) < len(raw)

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a field, ``default`` if it is absent."""
        values = self.all(name)
        return values[0] if values else default

    def all(self, name: str) -> list[str]:
        """Return all values of a field, in their order."""
        key = name.lower().encode("latin-1")
        if key not in self._by_name:
            return []
        if not self._repeats:
            return [self._by_name[key].decode("latin-1")]
        return [value.decode("latin-1") for each, value in self._raw if each == key]

    def __contains__(self, name: str) -> bool:
        return name.lower().encode("latin-1") in self._by_name

    def names(self) -> Iterator[str]:
        """Yield the names of all fields in their order, in lower case."""
        return (name.decode("latin-1") for name, _ in self._raw)

    def items(self) -> Iterator[tuple[str, str]]:
        """Yield all fields in their order, with names in lower case."""
        return ((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._raw)


class HttpRequest(requests.Request):
    """A request of Starlette, with the caller, the data for the audit log and the replica's context added."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, context: Context, fields: Fields) -> None:
        super().__init__(scope, receive, send)
        self.context = context
        self.fields = fields
        self.principal: Principal | None = None
        self.job: Job | None = None
        self.problem: Problem | None = None
        """The problem with which the request was refused; None if it was not refused."""
        self.audit_name = ""
        """The name of the request in the audit log, empty if the audit log omits it."""
        self.detail = ""
        """The detail in the audit log, beside the request's path."""
        self.begun: float | None = None
        """The monotonic time at which an answer began that has no end of its own, up to which the log and the metrics
        count its seconds; None for any other answer.
        """

    @property
    def query_params(self) -> QueryParams:
        """The query parameters. Those of a short query are remembered, since most clients ask the same again."""
        query = self.scope["query_string"]
        return _remembered(query) if len(query) <= MOST_REMEMBERED_BYTES else super().query_params

    @property
    def token_name(self) -> str:
        """The name of the caller's token, for the log; empty without a token."""
        return self.job.name if self.job is not None else self.principal.name if self.principal is not None else ""

    @property
    def owner(self) -> str:
        """The name of the client that owns the sessions which this request opens; empty if no client was identified."""
        return "" if self.principal is None else self.principal.name

    @property
    def bound_to(self) -> str | None:
        """The name of the only client whose sessions this request may use; None if it may use all sessions."""
        return None if self.principal is None or self.principal.rights.admin else self.principal.name

    @property
    def operations(self) -> Operations:
        """The operations that this replica runs for its clients."""
        return self.context.operations
