"""A client that keeps its connection, behind a forwarder of TCP that gives new ones to the leader, as a Service does.

What does not lead any more has to let the client go: clients keep a connection for as long as they are answered there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from testbed.server import ServerProcess
from tests.support.network.link import Link, link
from tests.wire.support.api import connect, until

STATUS = "/webhdfs/v1/jobs?op=GETFILESTATUS"
MAKE = "/webhdfs/v1/jobs/flights/made?op=MKDIRS"


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """Two of one deployment; the first leads."""
    (tmp_path / "second").mkdir()
    with ServerProcess(tmp_path) as first:
        first.start()
        with ServerProcess(tmp_path / "second", pointers=first.pointers, blobs=first.blobs) as second:
            yield [first, second.start(until="/readyz")]


@pytest.fixture
def service(replicas: list[ServerProcess]) -> Iterator[Link]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(link(replicas[0].port)) as forwarder:
        yield forwarder


def step_down(leader: ServerProcess) -> None:
    with connect(leader.url) as direct:
        assert direct.post("/v1/step-down").status_code == 200


def upgrade(leader: ServerProcess) -> None:
    leader.terminate()
    assert leader.wait() == 0


@pytest.mark.parametrize("leave", [step_down, upgrade])
def test_the_next_answer_is_of_the_next_leader(
    replicas: list[ServerProcess], service: Link, leave: Callable[[ServerProcess], None]
) -> None:
    leader, other = replicas
    with connect(f"http://{service.address}") as java, connect(f"http://{service.address}") as caller:
        assert [java.get(STATUS).status_code for _ in range(3)] == [200, 200, 200]
        assert [caller.get("/v1/stores").status_code for _ in range(3)] == [200, 200, 200]
        assert service.accepted == 2
        leave(leader)
        until(lambda: other.status_of("/leader") == 200, "the other leads")
        service.upstream = other.port
        assert _answers(java, "GET", STATUS)[-1] == 200
        assert _answers(java, "PUT", MAKE) == [200]
        assert _answers(caller, "GET", "/v1/stores")[-1] == 200
        assert service.accepted == 4


def _answers(client: httpx.Client, method: str, target: str) -> list[int]:
    """Ask as clients do that cannot reach another place, and go on where a connection is cut or the answer names one;
    two requests are enough for one that begins on an old connection.
    """
    statuses = []
    for _ in range(2):
        try:
            answer = client.request(method, target)
        except httpx.TransportError:
            statuses.append(0)
            continue
        statuses.append(answer.status_code)
        if answer.status_code == 200:
            break
    return statuses
