"""Sessions at work on a replica in this process."""

from __future__ import annotations

import asyncio

from milepost_server.model.requests.base import Attempt
from milepost_server.replica.submitter import Caller
from tests.contracts.state_handle_store.frontends.actor import Actor
from tests.contracts.state_handle_store.frontends.frontend import Entry
from tests.contracts.state_handle_store.frontends.use_case_frontend import UseCaseFrontend
from tests.support.network.faults import before
from tests.support.servers.replicas import Rig

STORE = "flights"


async def actor(rig: Rig, name: str, ttl: float = 600.0) -> Actor:
    """A new session on whichever replica the rig has."""
    frontend = UseCaseFrontend(lambda: rig.replica)
    await frontend.open_session(name, ttl)
    return Actor(frontend, STORE, Caller(Attempt(name)))


async def held_back(rig: Rig, act: Actor, name: str) -> tuple[asyncio.Task[Entry], asyncio.Event]:
    """Have a session add a handle, and return once its commit is on its way; it gets there when the event is set."""
    gate = asyncio.Event()
    rig.pointers.disturb(before(gate.wait))
    adding = asyncio.create_task(act.add(name, b"1"))
    await rig.commits(2)
    return adding, gate
