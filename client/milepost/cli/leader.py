"""Ask the leader itself: what other replicas say of a term, or of settings, is their own."""

from __future__ import annotations

from milepost.cli.options import Options
from milepost.client import Client
from milepost.types import Status


def status_of_leader(options: Options, client: Client) -> Status | None:
    """Return the status of the replica that leads; None if nobody does. Raises the errors of `Client.status`."""
    status = client.status()
    if status.role != "leader" and status.leader is not None:
        with options.client_of((status.leader,)) as leader:
            status = leader.status()
    return status if status.role == "leader" else None
