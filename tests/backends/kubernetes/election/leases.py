"""What the tests of elections on a Lease have in common."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from milepost_backends.contract import Leadership
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.election.election import KubernetesElection, LeaseLeadership
from tests.support.servers.kubernetes import Site

ONE, OTHER = "http://127.0.0.1:7071", "http://127.0.0.1:7072"
DEADLINE = 60.0
FOR_EVER = {"lease_duration": "3600", "renew_deadline": "1800", "retry_period": "0.5"}
"""Whoever waits for the end of such a lease fails by the deadline."""


@asynccontextmanager
async def opened(address: KubernetesAddress, advertise: str, **arguments: Any) -> AsyncIterator[KubernetesElection]:
    election = KubernetesElection(address, advertise, **arguments)
    await election.open()
    try:
        yield election
    finally:
        await election.close()


async def won(election: KubernetesElection) -> LeaseLeadership:
    async with asyncio.timeout(DEADLINE):
        leadership = await election.campaign()
    assert isinstance(leadership, LeaseLeadership)
    assert leads(leadership)
    return leadership


def leads(leadership: Leadership) -> bool:
    return leadership.remaining(time.monotonic()) > 0


async def until_lost(leadership: Leadership) -> None:
    async with asyncio.timeout(DEADLINE):
        await leadership.wait_lost()
    assert not leads(leadership)


def holder(site: Site) -> str:
    """Who holds the Lease; empty for nobody."""
    lease = site.lease()
    return (lease["spec"].get("holderIdentity") or "") if lease is not None else ""
