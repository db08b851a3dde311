"""A replica that does not lead: 307 to the leader, or 503 where there is none."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support import raw
from tests.wire.support.api import Api, connect, problem, until


@pytest.fixture(scope="module")
def follower(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A second replica on the data of the first, which sends it no more clients once it has gone."""
    directory = tmp_path_factory.mktemp("follower")
    with ServerProcess(directory, pointers=server.pointers, blobs=server.blobs) as process:
        yield process.start(until="/readyz")
        process.terminate()
        assert process.wait() == 0
    until(lambda: replicas(server) == [server.url], "the leader knows that the follower has gone")


def replicas(server: ServerProcess) -> list[str]:
    """The replicas that this one, which leads, knows of."""
    with connect(server.url) as leading:
        return list(leading.get("/v1/status").json()["replicas"])


@pytest.fixture(scope="module")
def following(follower: ServerProcess) -> Iterator[httpx.Client]:
    with connect(follower.url) as client:
        yield client


CALLS = [
    ("GET", "/v1/stores"),
    ("GET", "/v1/stores?limit=2&token=YQ"),
    ("GET", "/v1/sessions?limit=2"),
    ("POST", "/v1/sessions"),
    ("GET", "/v1/sessions/s"),
    ("POST", "/v1/sessions/s/keepalive"),
    ("DELETE", "/v1/sessions/s"),
    ("POST", "/v1/stores/s/handles/a"),
    ("PUT", "/v1/stores/s/handles/a"),
    ("HEAD", "/v1/stores/s/handles/a"),
    ("GET", "/v1/stores/s/handles/a"),
    ("DELETE", "/v1/stores/s/handles/a"),
    ("GET", "/v1/stores/s/handles/a/state?redirect=true"),
    ("POST", "/v1/stores/s/handles/%61/lock"),
    ("GET", "/v1/stores/s/handles?limit=1&token=a%20b+c&x=%C3%A4&empty="),
    ("DELETE", "/v1/stores/s/handles/a/lock"),
    ("DELETE", "/v1/stores/s/handles"),
    ("POST", "/v1/stores/s/locks"),
    ("DELETE", "/v1/stores/s/locks"),
    ("POST", "/v1/stores/s/epoch"),
    ("GET", "/v1/stores/s/epoch"),
    ("DELETE", "/v1/stores/s/epoch"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/jobs/s"),
    ("GET", "/v1/jobs/s/history"),
    ("POST", "/v1/jobs/s/history"),
    ("POST", "/v1/jobs/s/rows"),
    ("POST", "/v1/jobs/s/stop"),
    ("POST", "/v1/jobs/s/hand-over"),
    ("POST", "/v1/jobs/s/start"),
    ("POST", "/v1/jobs/s/restore"),
    ("POST", "/v1/jobs/s/clone"),
    ("POST", "/v1/jobs/s/drop"),
    ("POST", "/v1/jobs/s/rescale"),
    ("POST", "/v1/stores/s/uploads"),
    ("GET", "/v1/stores/s/events?after=7"),
    ("GET", "/v1/jobs/s/events?after=7"),
    ("GET", "/v1/stores/%2e%2e%2Fx/handles"),
]


FILES = [
    ("GET", "/webhdfs/v1/jobs/s/a?op=GETFILESTATUS"),
    ("GET", "/webhdfs/v1/jobs?op=LISTSTATUS"),
    ("GET", "/webhdfs/v1/jobs/s/a?op=OPEN"),
    ("PUT", "/webhdfs/v1/jobs/s/a?op=CREATE"),
    ("PUT", "/webhdfs/v1/jobs/s/a?op=MKDIRS"),
    ("PUT", "/webhdfs/v1/jobs/s/a?op=RENAME&destination=/jobs/s/b"),
    ("DELETE", "/webhdfs/v1/jobs/s/a?op=DELETE"),
]
"""What Hadoop's client asks for, which looks for the leader itself."""


@pytest.mark.parametrize(("method", "target"), CALLS, ids=[f"{method} {target}" for method, target in CALLS])
def test_sent_to_the_leader_with_path_and_query_kept(
    server: ServerProcess, follower: ServerProcess, method: str, target: str
) -> None:
    response = raw.ask(follower.url, raw.head(method, target))
    assert response.status_code == 307
    assert response.headers["location"] == server.url + target
    assert response.headers["x-request-id"]
    assert int(response.headers["milepost-term"]) >= 0
    assert response.headers["connection"] == "close", "behind one address only a new connection reaches the leader"
    assert response.content == b""


def test_sent_on_without_waiting_for_the_body(server: ServerProcess, follower: ServerProcess) -> None:
    for headers in ({"Content-Length": str(10**12)}, {"Transfer-Encoding": "chunked"}):
        response = raw.ask(follower.url, raw.head("POST", "/v1/stores/s/handles/a", headers))
        assert response.status_code == 307
        assert response.headers["location"] == f"{server.url}/v1/stores/s/handles/a"
        assert "connection" not in response.headers, "it would cut off a client that sends all before it reads"


def test_a_long_body_is_taken_to_its_end(follower: ServerProcess) -> None:
    with raw.connected(follower.url) as connection:
        for _ in range(2):
            connection.sendall(raw.head("POST", "/v1/stores/s/handles/a", {"Content-Length": "100000"}))
            assert raw.answer(connection, "POST").status_code == 307
            connection.sendall(bytes(100_000))


def test_a_client_that_follows_gets_there_with_method_and_body(following: httpx.Client, store: str, api: Api) -> None:
    headers = {"Milepost-Session": str(api.session), "Milepost-Label-by": "redirect"}
    path = f"/v1/stores/{store}/handles/a"
    added = following.post(path, headers=headers, content=b"kept", follow_redirects=True)
    assert added.status_code == 201
    assert added.json()["labels"] == {"by": "redirect"}
    assert following.get(f"{path}/state", follow_redirects=True).content == b"kept"


def test_what_a_follower_answers_itself(
    server: ServerProcess, follower: ServerProcess, following: httpx.Client
) -> None:
    status = following.get("/v1/status").json()
    assert (status["role"], status["leader"]) == ("follower", server.url)
    assert status["replica"] == f"127.0.0.1:{follower.port}"
    assert (status["lease_remaining"], status["leading_for"], status["replicas"]) == (None, None, None)
    until(lambda: replicas(server) == [server.url, follower.url], "the leader knows of the follower")
    statuses = {
        path: following.get(path).status_code for path in ("/livez", "/readyz", "/metrics", "/docs", "/openapi.json")
    }
    assert set(statuses.values()) == {200}
    assert following.get("/leader").status_code == 503
    assert f"[+] leadership: follows {server.url}" in following.get("/readyz?verbose").text
    problem(following.get("/nowhere"), 404, "no-route")


@contextmanager
def leaderless(server: ServerProcess) -> Iterator[None]:
    """A process that holds the election's lock and tells nobody where it is: this one."""
    directory = Path(server.pointers.removeprefix("embedded:"))
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "leader.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def test_no_leader(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        with leaderless(server), connect(server.start(until="/livez").url) as http:
            for method, target in CALLS:
                response = raw.ask(server.url, raw.head(method, target))
                assert response.headers["connection"] == "close"
                if method == "HEAD":
                    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
                else:
                    assert problem(response, 503, "no-leader")["retryable"] is True
            for method, target in FILES:
                response = raw.ask(server.url, raw.head(method, target))
                assert (response.status_code, response.headers["connection"]) == (403, "close")
                assert response.json()["RemoteException"]["exception"] == "StandbyException"
            status = http.get("/v1/status").json()
            assert (status["role"], status["leader"]) == ("follower", None)
            assert (http.get("/leader").status_code, http.get("/readyz").status_code) == (503, 503)
            assert "[-] leadership" in http.get("/readyz?verbose").text
        server.wait_for("/leader")
