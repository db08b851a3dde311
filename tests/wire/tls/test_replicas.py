"""Replicas that speak TLS send clients to each other, and believe and are believed by their certificates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

import milepost
from testbed.server import ALL_AS_BLOBS, ServerProcess
from tests.support.servers.certificates import Certificates
from tests.wire.support.api import Api, until
from tests.wire.tls.conftest import leading
from tests.wire.webhdfs.hadoop import Tree

CONTENT = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def leader(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """It wants certificates of its clients, which other replicas are too."""
    with leading(certificates, tmp_path_factory.mktemp("leader"), *ALL_AS_BLOBS, *certificates.demanding) as process:
        yield process


@pytest.fixture(scope="module")
def follower(
    leader: ServerProcess, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    with beside(leader, tmp_path_factory.mktemp("follower"), certificates, *certificates.demanding) as process:
        yield process.start(until="/readyz")


def beside(leader: ServerProcess, directory: Path, certificates: Certificates, *flags: str) -> ServerProcess:
    return ServerProcess(
        directory,
        *ALL_AS_BLOBS,
        *flags,
        pointers=leader.pointers,
        blobs=leader.blobs,
        tls=certificates.trusting(),
    )


@pytest.fixture
def clients(leader: ServerProcess, follower: ServerProcess, certificates: Certificates) -> Iterator[list[httpx.Client]]:
    """One of the leader, and one of the follower."""
    with ExitStack() as opened:
        yield [
            opened.enter_context(
                httpx.Client(
                    base_url=server.url, verify=certificates.trusting(shown=True), trust_env=False, timeout=60.0
                )
            )
            for server in (leader, follower)
        ]


def test_a_follower_sends_to_the_leader_by_https(
    leader: ServerProcess, follower: ServerProcess, clients: list[httpx.Client], certificates: Certificates, store: str
) -> None:
    assert leader.url.startswith("https://")
    answer = clients[1].get("/v1/stores?limit=2")
    assert (answer.status_code, answer.headers["location"]) == (307, f"{leader.url}/v1/stores?limit=2")
    with (
        milepost.Client(follower.url, verify=certificates.trusting(shown=True)) as client,
        client.session() as session,
    ):
        session.store(store).add_and_lock("latest", CONTENT)
        assert client.store(store).read("latest") == CONTENT


def test_what_is_put_at_a_follower_is_published_at_the_leader(
    leader: ServerProcess, follower: ServerProcess, clients: list[httpx.Client], store: str
) -> None:
    ours = clients[0]
    tree = Tree(ours, store, Api.on(ours, store).campaign().json()["epoch"])
    found: list[str] = []

    def sent_to_the_follower() -> bool:
        found.append(tree.ask("PUT", "a/file", "CREATE").headers["location"])
        return found[-1].startswith(follower.url)

    until(sent_to_the_follower, "the leader sends clients to the follower")
    assert tree.send(found[-1], CONTENT).status_code == 201
    assert tree.read("a/file").content == CONTENT
    follower.wait_for_log(f"PUT /webhdfs/v1/jobs/{store}/a/file 201")
    leader.wait_for_log("POST /datanodes/publish 200")


def untold(leader: ServerProcess, directory: Path, certificates: Certificates, flags: tuple[str, ...]) -> str:
    """What a replica with these flags says when it cannot tell the leader that it is there."""
    with beside(leader, directory, certificates, *flags) as process:
        process.start(until="/readyz")
        process.wait_for_log("cannot tell")
        return process.logged()


def test_a_replica_that_does_not_trust_the_leader_tells_it_nothing(
    leader: ServerProcess, certificates: Certificates, tmp_path: Path
) -> None:
    flags = [*certificates.demanding]
    del flags[flags.index("--tls-ca") : flags.index("--tls-ca") + 2]
    assert "CERTIFICATE_VERIFY_FAILED" in untold(leader, tmp_path, certificates, tuple(flags))


def test_a_replica_without_a_certificate_is_no_door(
    leader: ServerProcess, certificates: Certificates, tmp_path: Path
) -> None:
    """It is reached without TLS itself, so that it shows none to the leader."""
    flags = ("--tls-ca", str(certificates.ca))
    with ServerProcess(tmp_path, *flags, pointers=leader.pointers, blobs=leader.blobs) as process:
        process.start(until="/readyz")
        process.wait_for_log("wants a certificate of its clients")
