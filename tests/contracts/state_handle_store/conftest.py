"""The service under each scenario: over every pair of backends, by use cases and by REST."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.contracts.places import Services
from tests.contracts.state_handle_store.doors.deployments import DEPLOYMENTS, Deployment, Site
from tests.contracts.state_handle_store.doors.rest_door import RestDoor
from tests.contracts.state_handle_store.doors.sdk_door import SdkDoor
from tests.contracts.state_handle_store.doors.services import FragileService, Service, fragile_service

REPLICAS = 3

_numbers = itertools.count(1)


@pytest.fixture(params=[pytest.param(each, id=each.name, marks=each.marks) for each in DEPLOYMENTS])
def deployment(request: pytest.FixtureRequest) -> Deployment:
    """A pair of backends."""
    deployment: Deployment = request.param
    return deployment


@pytest.fixture
def site(deployment: Deployment, tmp_path: Path, services: Services) -> Site:
    """A fresh place for that pair."""
    return deployment.fresh(tmp_path, services)


@pytest.fixture(params=[False, True], ids=["use-cases", "rest"])
def by_rest(request: pytest.FixtureRequest) -> bool:
    """The way in."""
    way: bool = request.param
    return way


@pytest.fixture(params=["use-cases", "rest", "sdk"])
async def service(
    request: pytest.FixtureRequest, deployment: Deployment, tmp_path: Path, services: Services
) -> AsyncIterator[Service]:
    """A service without faults; by REST and the SDK it is three replicas, which the scenarios of a session share.

    A random one of them is asked first.
    """
    if request.param == "use-cases":
        async with fragile_service(deployment.fresh(tmp_path, services), rest=False) as fragile:
            yield fragile
        return
    urls, site = replicas_on(deployment, services)
    rest = RestDoor(random.choice(urls))
    door = rest if request.param == "rest" else SdkDoor(urls, rest)
    blob_store = site.blob_store()
    await blob_store.open()
    try:
        yield Service(door, f"store-{next(_numbers)}", blob_store)
    finally:
        await door.close()
        await blob_store.close()


@pytest.fixture
async def fragile(site: Site, by_rest: bool) -> AsyncIterator[FragileService]:
    """A service with faults to be had; by REST it is served from this process."""
    async with fragile_service(site, rest=by_rest) as service:
        yield service


def replicas_on(deployment: Deployment, services: Services) -> tuple[list[str], Site]:
    """The URLs of the replicas that all scenarios share."""
    return services.get(f"replicas-on-{deployment.name}", partial(_running_replicas, deployment, services))


@contextmanager
def _running_replicas(
    deployment: Deployment, services: Services, directory: Path
) -> Generator[tuple[list[str], Site], None, None]:
    site = deployment.fresh(directory, services)
    pointers, blobs = site.urls
    with ExitStack() as ends:
        replicas = [
            ends.enter_context(ServerProcess(directory, "--linger", "0", *ALL_AS_BLOBS, pointers=pointers, blobs=blobs))
            for _ in range(REPLICAS)
        ]
        for replica in replicas:
            replica.start(until=None)
        for replica in replicas:
            replica.wait_for("/readyz")
        yield [replica.url for replica in replicas], site
