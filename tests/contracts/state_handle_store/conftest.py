"""The service under each scenario: over every pair of backends, by use cases and by REST."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import AsyncIterator, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.contracts.places import Services
from tests.contracts.state_handle_store.frontends.deployments import DEPLOYMENTS, Deployment, Site
from tests.contracts.state_handle_store.frontends.rest_frontend import RestFrontend
from tests.contracts.state_handle_store.frontends.sdk_frontend import SdkDoor
from tests.contracts.state_handle_store.frontends.services import FragileService, Service, fragile_service

REPLICAS = 3


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
    rest = RestFrontend(random.choice(urls))
    frontend = rest if request.param == "rest" else SdkDoor(urls, rest)
    blob_store = site.blob_store()
    await blob_store.open()
    try:
        yield Service(frontend, f"store-{secrets.token_hex(8)}", blob_store)
    finally:
        await frontend.close()
        await blob_store.close()


@pytest.fixture
async def fragile(site: Site, by_rest: bool) -> AsyncIterator[FragileService]:
    """A service with faults to be had; by REST it is served from this process."""
    async with fragile_service(site, rest=by_rest) as service:
        yield service


def replicas_on(deployment: Deployment, services: Services) -> tuple[list[str], Site]:
    """The URLs of the replicas that all scenarios share; where their backends are those of the run, all of its do."""
    name = f"replicas-on-{deployment.name}"
    start = services.get if deployment.marks else services.of_run
    place = deployment.fresh(services.directory / f"{name}-{secrets.token_hex(8)}", services)
    urls, pointers, blobs = start(name, partial(_running_replicas, place.pointers, place.blobs, place.urls, _keys()))
    return urls, Site(deployment, pointers, blobs)


def _keys() -> dict[str, str]:
    """What this process knows of S3's keys, for replicas that another process starts."""
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


@contextmanager
def _running_replicas(
    pointers: str, blobs: str, flags: tuple[str, str], keys: dict[str, str], directory: Path
) -> Generator[tuple[list[str], str, str], None, None]:
    with ExitStack() as ends:
        replicas = [
            ends.enter_context(
                ServerProcess(
                    directory, "--linger", "0", *ALL_AS_BLOBS, pointers=flags[0], blobs=flags[1], environment=keys
                )
            )
            for _ in range(REPLICAS)
        ]
        for replica in replicas:
            replica.start(until=None)
        for replica in replicas:
            replica.wait_for("/readyz")
        yield [replica.url for replica in replicas], pointers, blobs
