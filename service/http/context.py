"""What the routes are given: the replica, and what it tells of itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from service.http.access import AccessLog
from service.http.connections import Connections
from service.http.hosts import Hosts
from service.http.metrics import Metrics
from service.http.tokens import Tokens
from service.leader import Replica
from service.leader_locator import LeaderLocator


@dataclass(frozen=True, slots=True)
class Context:
    """One application's parts. ``pointers`` and ``blobs`` are URLs without secrets, for the status page. ``hosts`` is
    asked where there are no tokens; None answers to every name.
    """

    replica: Replica
    leader_locator: LeaderLocator
    metrics: Metrics
    tokens: Tokens
    name: str
    version: str
    pointers: str
    blobs: str
    access: AccessLog | None = None
    hosts: Hosts | None = None
    connections: Connections = field(default_factory=Connections)
