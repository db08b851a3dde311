"""Files on a leader and two followers: bytes go to whoever leads, and outlive a change of leader."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import milepost
from tests.wire.support import raw
from tests.wire.support.api import Api, connect, digest, problem
from tests.wire.webhdfs.replicas import Set

CHUNK = b"state" * 20_000


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Set]:
    with ExitStack() as running:
        yield Set(tmp_path_factory.mktemp("replicas"), running)


class Killing:
    """The bytes of a state that is read once for its digest; half-way the second time, the leader is killed."""

    def __init__(self, replicas: Set) -> None:
        self.replicas = replicas
        self.begun = 0

    def __iter__(self) -> Iterator[bytes]:
        self.begun += 1
        for number in range(20):
            if self.begun == 2 and number == 10:
                self.replicas.leader().kill()
            yield CHUNK


def test_a_follower_sends_on_to_the_leader(replicas: Set, store: str) -> None:
    with connect(replicas.followers()[0].url) as http:
        for method in ("PUT", "GET", "HEAD", "DELETE"):
            answer = http.request(method, f"/v1/stores/{store}/files/a%20b?x=y", content=b"")
            assert answer.status_code == 307
            assert answer.headers["location"] == f"{replicas.leader().url}/v1/stores/{store}/files/a%20b?x=y"


def test_an_answer_that_was_lost_is_had_again(replicas: Set, store: str) -> None:
    """The whole request was sent, and nobody read the answer."""
    leader = replicas.leader()
    with connect(leader.url) as http:
        api = Api.on(http, store)
        driver = api.under(api.granted()).keyed("key", 2)
        headers = {"Content-Length": "5", "Milepost-Epoch": "1", "Idempotency-Key": "key", "If-None-Match": "*"}
        with raw.connected(leader.url) as connection:
            connection.sendall(raw.head("PUT", f"/v1/stores/{store}/files/a", headers) + b"bytes")
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
        again = driver.call("PUT", "/files/a", content=b"bytes", headers={"If-None-Match": "*"})
        assert (again.status_code, again.headers["milepost-replayed"]) == (201, "true")
        assert again.headers["repr-digest"] == digest(b"bytes")
        problem(driver.keyed("other").call("PUT", "/files/a", headers={"If-None-Match": "*"}), 409, "already-exists")


def test_a_leader_that_is_killed_while_it_takes_bytes_costs_nothing(replicas: Set, store: str) -> None:
    """It takes the place of the one before: so this is the last test of the module."""
    urls = [replica.url for replica in replicas.replicas]
    with milepost.Client(urls, timeout=120.0) as client, client.session(ttl=600) as session:
        epoch = session.store(store).campaign().epoch
        files = client.store(store).under(epoch).files
        before = files.write("before", b"acknowledged", only_new=True)
        source = Killing(replicas)
        made = files.write("a", source, only_new=True)
        assert source.begun >= 3  # the digest, the killed attempt, and another
        assert made.sha256 == hashlib.sha256(CHUNK * 20).hexdigest()
        assert files.read("a") == CHUNK * 20
        assert files.get("before").version == before.version
        assert [entry.path for entry in files.list()] == ["a", "before"]
