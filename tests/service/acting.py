"""Sessions at work on a replica in this process."""

from __future__ import annotations

from service.replica.submitter import Caller
from service.rules.requests import Attempt
from tests.contracts.state_handle_store.doors.actor import Actor
from tests.contracts.state_handle_store.doors.use_case_door import UseCaseDoor
from tests.support.servers.replicas import Rig

STORE = "flights"


async def actor(rig: Rig, name: str, ttl: float = 600.0) -> Actor:
    """A new session on whichever replica the rig has."""
    door = UseCaseDoor(lambda: rig.replica)
    await door.open_session(name, ttl)
    return Actor(door, STORE, Caller(Attempt(name)))
