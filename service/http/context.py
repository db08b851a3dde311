"""What the routes are given: the replica, and what it tells of itself."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from service.http.metrics import Metrics
from service.http.tokens import Tokens
from service.leader import Replica
from service.whereabouts import Whereabouts


@dataclass(frozen=True, slots=True)
class Context:
    """One application's parts. ``pointers`` and ``blobs`` are URLs without secrets, for the status page."""

    replica: Replica
    whereabouts: Whereabouts
    metrics: Metrics
    tokens: Tokens
    name: str
    version: str
    pointers: str
    blobs: str


def context_of(request: Request) -> Context:
    """The context that the application was made with."""
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


def replica_of(request: Request) -> Replica:
    """The replica that the application serves."""
    return context_of(request).replica
