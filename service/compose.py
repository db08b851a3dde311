"""Puts a replica together from URLs: the only place that knows which backends there are."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from starlette.types import ASGIApp

from backends.contract import BlobStore, Election, Misconfigured, PointerStore
from backends.embedded.election import EmbeddedElection
from backends.embedded.pointers import EmbeddedPointers
from backends.local.blobs import LocalBlobs
from service.http.access import AccessLog
from service.http.app import create_app
from service.http.connections import Connections
from service.http.context import Context
from service.http.hosts import Hosts
from service.http.metrics import Metrics
from service.http.tokens import Tokens
from service.leader import Replica
from service.settings import Settings
from service.whereabouts import Whereabouts

# A store that waits as long as the whole step may take would never get to try another server of its own.
_EXCHANGES_IN_A_STEP = 3


@dataclass(frozen=True, slots=True)
class Deployment:
    """Where a replica keeps things and how others reach it."""

    pointers: str
    blobs: str
    advertise: str
    name: str
    accepted_losses: frozenset[str] = frozenset()


def wall_clock() -> str:
    """Now, for people to read: RFC 3339 in UTC, milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def open_replica(deployment: Deployment, settings: Settings, clock: Callable[[], float] = time.monotonic) -> Replica:
    """A replica that is not started yet. Raises `Misconfigured` for a URL that means nothing here."""
    pointers, election = _pointers(deployment.pointers, deployment.advertise, deployment.accepted_losses)
    return Replica(
        pointers=pointers,
        election=election,
        blobs=_blobs(deployment.blobs, settings),
        settings=settings,
        clock=clock,
        wall=wall_clock,
    )


def application(
    deployment: Deployment,
    replica: Replica,
    tokens: Tokens,
    access: AccessLog | None = None,
    connections: Connections | None = None,
    hosts: Hosts | None = None,
) -> ASGIApp:
    """The HTTP application around a replica; its answers are logged only where they are told to be."""
    context = Context(
        replica=replica,
        whereabouts=Whereabouts(replica.election, deployment.advertise, replica.clock),
        metrics=Metrics(replica),
        tokens=tokens,
        name=deployment.name,
        version=version("milepost-server"),
        pointers=deployment.pointers,
        blobs=deployment.blobs,
        access=access,
        hosts=hosts or Hosts(deployment.advertise),
        connections=connections or Connections(),
    )
    return create_app(context)


def _pointers(url: str, advertise: str, losses: frozenset[str]) -> tuple[PointerStore, Election]:
    scheme, _, rest = url.partition(":")
    if scheme == "embedded" and rest:
        return EmbeddedPointers(Path(rest), accept_loss=losses), EmbeddedElection(Path(rest), advertise)
    if scheme in ("zookeeper", "zookeeper+tls"):
        from backends.zookeeper.address import Address
        from backends.zookeeper.election.election import ZooKeeperElection  # as for S3
        from backends.zookeeper.pointers.store import ZooKeeperPointers

        address = Address.parse(url)
        return ZooKeeperPointers(address, accept_loss=losses), ZooKeeperElection(address, advertise)
    if scheme == "kubernetes":
        from backends.kubernetes.address import Address as KubernetesAddress
        from backends.kubernetes.election.election import KubernetesElection
        from backends.kubernetes.pointers.store import KubernetesPointers

        place = KubernetesAddress.parse(url)
        return KubernetesPointers(place, accept_loss=losses), KubernetesElection(place, advertise)
    raise Misconfigured(
        f"pointers of the kind {scheme!r} are not known; "
        "known are embedded:DIR, zookeeper://h1,h2/path and kubernetes://namespace/name"
    )


def _blobs(url: str, settings: Settings) -> BlobStore:
    scheme, _, rest = url.partition(":")
    if scheme == "file" and rest:
        return LocalBlobs(Path(rest))
    if scheme == "s3":
        from backends.s3.blobs import S3Blobs  # takes half a second, which servers without it are spared

        return S3Blobs(url)
    if scheme == "hdfs":
        from backends.hdfs.blobs import HdfsBlobs

        return HdfsBlobs(url, deadline=settings.blob_seconds / _EXCHANGES_IN_A_STEP)
    raise Misconfigured(
        f"blobs of the kind {scheme!r} are not known; known are file:DIR, s3://bucket/prefix and hdfs://host/path"
    )
