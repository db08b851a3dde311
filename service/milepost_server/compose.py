"""Assembles a replica and its HTTP application from the URLs of its backends."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache, lru_cache, partial
from importlib.metadata import version

from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from milepost_backends.contract import Accounts, BlobsSettings, BlobStore, Election, PointersSettings, PointerStore
from milepost_backends.registry import make_blobs, make_pointers, make_service_accounts
from milepost_server.blobs.shared_key import SharedKey
from milepost_server.http.access.accounts import AskedAccounts
from milepost_server.http.access.authentication import Authentication
from milepost_server.http.access.hosts import Hosts
from milepost_server.http.access.job_tokens import JobTokens
from milepost_server.http.access.log import AccessLog
from milepost_server.http.access.tokens import TokenSource
from milepost_server.http.acts.acting import JobActs
from milepost_server.http.application import Application
from milepost_server.http.cells.addresses import CellAddresses
from milepost_server.http.cells.relay import CellRelay
from milepost_server.http.connection.connections import Connections
from milepost_server.http.job_metrics import JobMetrics
from milepost_server.http.metrics import Metrics
from milepost_server.http.openapi import description
from milepost_server.http.page import routes as page
from milepost_server.http.requests import Context
from milepost_server.http.routes import (
    acts,
    cells,
    credentials,
    events,
    files,
    handles,
    health,
    history,
    jobs,
    lookups,
    moves,
    placement,
    sessions,
    snapshots,
    states,
    stores,
    wishes,
)
from milepost_server.http.routing import Routes
from milepost_server.http.tls.certificates import Certificates, public_authorities
from milepost_server.http.webhdfs import routes as webhdfs
from milepost_server.http.webhdfs.datanode import routes as data_nodes
from milepost_server.http.webhdfs.datanode.data_node import DataNode
from milepost_server.http.webhdfs.datanode.data_nodes import DataNodeRegistry, DataNodes
from milepost_server.http.webhdfs.datanode.peer import Peer, announce
from milepost_server.operations.operations import operations_of
from milepost_server.operations.watching import MOST_WATCHES
from milepost_server.replica.leader_locator import LeaderLocator
from milepost_server.replica.probes import Probes
from milepost_server.replica.replica import Replica
from milepost_server.replica.settings import Settings

# A backend waits for one answer for a third of a step's time, so that it can still try another server in that step.
_EXCHANGES_IN_A_STEP = 3

_ROUTERS = (
    handles.router,
    states.router,
    states.uploads,
    stores.router,
    events.router,
    events.router_of_jobs,
    snapshots.router,
    files.router,
    lookups.router,
    sessions.router,
    stores.epochs,
    jobs.router,
    placement.router,
    moves.router,
    history.router,
    wishes.router,
    acts.router,
    credentials.router,
    health.router,
    cells.router,
    description.router,
    page.router,
    webhdfs.router,
    data_nodes.router,
)


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """The addresses of a replica: the URLs of its pointer store and blob store, and ``advertise``, at which clients and
    other replicas reach it.

    ``accepted_losses`` are the names of losses of data that the owner accepts (see `JournalDamaged`).
    """

    pointers: str
    blobs: str
    advertise: str
    name: str
    accepted_losses: frozenset[str] = frozenset()


def wall_clock() -> str:
    """Return the current time as text: RFC 3339, in UTC, with milliseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{nanoseconds // 1_000_000:03d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    """Return a second after 1970 as text."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds").removesuffix("+00:00")


def open_replica(deployment: ReplicaConfig, settings: Settings, clock: Callable[[], float] = time.monotonic) -> Replica:
    """Make a replica, without starting it. Raises `Misconfigured` for a URL that cannot be used."""
    pointers, election, blobs = make_stores(deployment, settings)
    return Replica(
        pointers=pointers,
        election=election,
        blobs=blobs,
        advertise=deployment.advertise,
        settings=settings,
        clock=clock,
        wall=wall_clock,
        on_loaded=_spare_what_was_loaded,
    )


def make_stores(deployment: ReplicaConfig, settings: Settings) -> tuple[PointerStore, Election, BlobStore]:
    """Make the pointer store, the election and the blob store of a replica; they are not open yet. Raises
    `Misconfigured` for a URL that cannot be used.
    """
    pointers, election = make_pointers(
        deployment.pointers, PointersSettings(deployment.advertise, deployment.accepted_losses)
    )
    return pointers, election, make_blobs(deployment.blobs, BlobsSettings(settings.blob_seconds / _EXCHANGES_IN_A_STEP))


def service_accounts(deployment: ReplicaConfig, audience: str) -> Accounts:
    """Make the `Accounts` that ask Kubernetes to which service account a token for ``audience`` belongs; they are not
    open yet. Raises `Misconfigured` if the settings of the cluster cannot be used.
    """
    return make_service_accounts(deployment.pointers, audience)


def _spare_what_was_loaded() -> None:
    """Exempt the loaded records from Python's garbage collection, which would stop the process for 0.3 s to scan them.

    Existing garbage, such as the records of an earlier leadership, is collected first, since exempted garbage would
    never be freed. The exemption covers all objects of the process, so the process should run one replica only.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def application(
    deployment: ReplicaConfig,
    replica: Replica,
    tokens: TokenSource,
    access: AccessLog | None = None,
    connections: Connections | None = None,
    hosts: Hosts | None = None,
    certificates: Certificates | None = None,
    accounts: Accounts | None = None,
    audience: str = "",
    addresses: CellAddresses | None = None,
) -> ASGIApp:
    """Make the HTTP application of a replica. Its answers are logged in ``access``, unless that is None.

    ``tokens`` are the known clients. ``certificates`` has the certificates that the replica presents to other replicas,
    and those that it trusts. ``accounts`` asks Kubernetes for the owner of a token for ``audience``; None if tokens of
    Kubernetes are not accepted. ``addresses`` are those of all cells; None if this replica asks no others.
    """
    leader_locator = LeaderLocator(replica.election, deployment.advertise, replica.clock)
    connections = connections or Connections()
    operations = operations_of(replica, min(MOST_WATCHES, connections.most_streams))
    settings = replica.settings
    key = SharedKey(replica.blobs, replica.pointers)
    peer = Peer(key, replica.clock, cache(public_authorities) if certificates is None else certificates.for_replicas)
    data_node = DataNode(
        replica.journal,
        replica.blobs,
        operations.publisher,
        leader_locator,
        peer,
        replica.clock,
        time.time,
        max_state_bytes=settings.max_state_bytes,
        inline_below=settings.inline_below,
    )
    replica.beside = partial(announce, replica.journal, leader_locator, peer)
    context = Context(
        operations=operations,
        data_nodes=DataNodes(
            data_node, DataNodeRegistry(deployment.advertise, replica.clock), key, replica.journal, time.time
        ),
        journal=replica.journal,
        leader_locator=leader_locator,
        probes=Probes(replica.journal, replica.pointers, replica.blobs, key, leader_locator),
        metrics=Metrics(
            replica.journal,
            replica.pointers,
            replica.blobs,
            JobMetrics(operations.jobs),
            lambda: None if certificates is None else certificates.expires,
            settings.journal.cell,
        ),
        cells=CellRelay(
            settings.journal.cell, addresses or CellAddresses({}), leader_locator, peer.exchanges, replica.clock
        ),
        acts=JobActs(replica.acts),
        clock=replica.clock,
        idle_seconds=replica.settings.idle_seconds,
        file_idle_seconds=replica.settings.file_idle_seconds,
        authentication=Authentication(
            tokens,
            JobTokens(tokens, key, time.time),
            None if accounts is None else AskedAccounts(accounts, audience, tokens, replica.clock, time.time),
        ),
        name=deployment.name,
        version=version("milepost-server-core"),
        pointers=deployment.pointers,
        blobs=deployment.blobs,
        advertise=deployment.advertise,
        heartbeat_seconds=settings.heartbeat_seconds,
        access=access,
        hosts=hosts or Hosts(deployment.advertise),
        connections=connections,
        certified_only=certificates is not None and certificates.demanded,
    )
    return create_app(context)


def create_app(context: Context) -> Application:
    """Make the ASGI application of one replica. It neither opens nor closes the replica's backends."""
    document = description.Description(context.version, routes())
    described = APIRoute("/openapi.json", document.answer, methods=["GET"], include_in_schema=False)
    made = context.acts.application = Application(context, Routes([*routes(), described]))
    return made


def routes() -> list[APIRoute]:
    """Return all routes except that of the OpenAPI description, in the order in which that description lists them."""
    return [route for router in _ROUTERS for route in router.routes if isinstance(route, APIRoute)]
