"""The context of the routes: the operations of a replica, and what the server says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from milepost_server.http.access.authentication import Authentication
from milepost_server.http.access.hosts import Hosts
from milepost_server.http.access.log import AccessLog
from milepost_server.http.connection.connections import Connections
from milepost_server.http.metrics import Metrics
from milepost_server.http.webhdfs.datanode.data_nodes import DataNodes
from milepost_server.journal import Journal
from milepost_server.operations.operations import Operations
from milepost_server.replica.leader_locator import LeaderLocator
from milepost_server.replica.probes import Probes


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of a replica that its HTTP application uses.

    ``clock`` gives monotonic seconds. A client may send nothing for ``idle_seconds`` inside of a request, and for
    ``file_idle_seconds`` inside of the bytes of a file. ``pointers`` and ``blobs`` are URLs without secrets, for the
    status page, and ``advertise`` is where others reach this replica.
    ``hosts`` checks the header Host where there are no tokens; None accepts every name.
    ``certified_only`` says whether clients have to show a certificate.
    """

    operations: Operations
    journal: Journal
    leader_locator: LeaderLocator
    probes: Probes
    data_nodes: DataNodes
    metrics: Metrics
    clock: Callable[[], float]
    idle_seconds: float
    file_idle_seconds: float
    authentication: Authentication
    name: str
    version: str
    pointers: str
    blobs: str
    advertise: str
    access: AccessLog | None = None
    hosts: Hosts | None = None
    certified_only: bool = False
    connections: Connections = field(default_factory=Connections)
