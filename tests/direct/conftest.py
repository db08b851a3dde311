"""A real service over a real S3 server, with a gateway between S3 and everybody that loses and refuses when told to."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from anyio.from_thread import start_blocking_portal

from testbed.server import ServerProcess
from tests.client.flavours import connected
from tests.contracts.places import Services
from tests.support.network.gateway import Gateway, Request, gateway
from tests.support.servers import s3

ABOVE = 64 * 1024
NAMED = {"timeout": 60.0, "direct_above": ABOVE}


def is_signed(request: Request) -> bool:
    """Whether it was signed for somebody else: the service's own requests carry their signature in a header."""
    return "X-Amz-Signature=" in request.target


class Way:
    """The gateway, as far as signed requests are concerned."""

    def __init__(self, gate: Gateway) -> None:
        self.gate = gate

    def taken(self) -> list[str]:
        """The methods of the signed requests since the test began."""
        return [request.method for request in self.gate.requests if is_signed(request)]


@pytest.fixture(scope="module")
def gate(services: Services) -> Iterator[Gateway]:
    weed = s3.shared(services)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(gateway(weed.endpoint_url)) as gate,
    ):
        yield gate


@pytest.fixture
def way(gate: Gateway) -> Iterator[Way]:
    """The way to S3, undisturbed at first and at last."""
    gate.requests.clear()
    yield Way(gate)
    gate()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, services: Services, gate: Gateway) -> Iterator[ServerProcess]:
    """A replica that leads, whose blobs lie in a bucket behind the gateway."""
    directory = tmp_path_factory.mktemp("direct")
    behind = quote(s3.shared(services).endpoint_url, safe="")
    url = s3.fresh_url(directory, services).replace(behind, quote(gate.url, safe=""))
    assert quote(gate.url, safe="") in url
    with ServerProcess(directory, blobs=url) as process:
        yield process.start()


@pytest.fixture(params=["blocking", "asynchronous"])
def flavour(request: pytest.FixtureRequest) -> str:
    """Which of the two clients."""
    return str(request.param)


@pytest.fixture
def client(server: ServerProcess, flavour: str) -> Iterator[Any]:
    with connected(flavour, server.url, **NAMED) as either:
        yield either


@pytest.fixture
def store(client: Any) -> Iterator[Any]:
    """A store that only this test uses, with a session."""
    with client.session(holder="a", ttl=60) as session:
        yield session.store(f"store-{secrets.token_hex(6)}")
