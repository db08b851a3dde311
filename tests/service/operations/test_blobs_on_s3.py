"""A real server with its blobs on a real S3 server that loses them, cuts them short, goes away and comes back."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from testbed.seaweedfs import ALL_RIGHTS, SeaweedFS
from testbed.server import ALL_AS_BLOBS, ServerFailed, ServerProcess
from tests.support.servers.s3 import BUCKET, running

pytestmark = pytest.mark.later

LARGE = os.urandom(12_000_000)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    """One that may be stopped."""
    with running(tmp_path_factory.mktemp("seaweedfs")) as started:
        yield started


class Client:
    """Plain HTTP in one session and one store."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=f"{url}/v1", headers={"Milepost-Session": "s"}, timeout=120)
        self._http.post("/sessions", json={"ttl": 600, "session": "s", "holder": "test"}).raise_for_status()

    def close(self) -> None:
        self._http.close()

    def add(self, name: str, body: bytes) -> httpx.Response:
        headers = {"Content-Type": "application/octet-stream"}
        return self._http.post(f"/stores/store/handles/{name}", content=body, headers=headers)

    def announce(self, body: bytes) -> httpx.Response:
        said = {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        return self._http.post("/stores/store/uploads", json=said)

    def state(self, name: str, **headers: str) -> httpx.Response:
        return self._http.get(f"/stores/store/handles/{name}/state", headers=headers)

    def remove(self, name: str) -> httpx.Response:
        return self._http.delete(f"/stores/store/handles/{name}")


@pytest.fixture
def server(tmp_path: Path, s3: SeaweedFS) -> Iterator[ServerProcess]:
    """A server that leads, with a prefix of its own."""
    with ServerProcess(tmp_path, *ALL_AS_BLOBS, blobs=s3.url(BUCKET, tmp_path.name)) as started:
        yield started.start()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """A session on it."""
    with closing(Client(server.url)) as opened:
        yield opened


def only_blob(s3: SeaweedFS, server: ServerProcess) -> str:
    """The key of the only blob that the server has in the bucket."""
    with closing(s3.client()) as behind:
        found = behind.list_objects_v2(Bucket=BUCKET, Prefix=f"{server.directory.name}/")["Contents"]
    (key,) = (str(entry["Key"]) for entry in found if "/store/" in str(entry["Key"]))
    return key


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a problem."""
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def test_states_outlive_the_server(client: Client, server: ServerProcess) -> None:
    assert client.add("small", b"state").status_code == 201
    assert client.add("large", LARGE).status_code == 201
    server.kill()
    server.start()
    with closing(Client(server.url)) as again:
        assert again.state("small").content == b"state"
        assert again.state("large").content == LARGE
        assert again.state("large", Range="bytes=6000000-6000009").content == LARGE[6_000_000:6_000_010]
        assert again.remove("large").json() == {"removed": True}
    assert ALL_RIGHTS.secret_key not in server.log_path.read_text()


def test_no_log_level_shows_credentials_or_signatures(tmp_path: Path, s3: SeaweedFS) -> None:
    """botocore logs each signature at the level of debugging, and the credentials that it is given."""
    with ServerProcess(tmp_path, "--log-level", "debug", *ALL_AS_BLOBS, blobs=s3.url(BUCKET, tmp_path.name)) as server:
        server.start()
        with closing(Client(server.url)) as client:
            client.add("pointer", b"state")
            url = client.announce(LARGE).raise_for_status().json()["url"]
        server.stop()
        logged = server.log_path.read_text()
    (signature,) = parse_qs(urlsplit(url).query)["X-Amz-Signature"]
    assert signature not in logged
    assert ALL_RIGHTS.secret_key not in logged
    assert " INFO milepost" in logged
    assert re.findall(r" DEBUG (?!milepost|service|backends).*", logged) == []


def test_a_blob_that_was_deleted_behind_our_back(client: Client, server: ServerProcess, s3: SeaweedFS) -> None:
    client.add("lost", b"state")
    with closing(s3.client()) as behind:
        behind.delete_object(Bucket=BUCKET, Key=only_blob(s3, server))
    assert problem(client.state("lost")) == (410, "blob-missing")
    assert client.add("other", b"state").status_code == 201
    assert client.remove("lost").json() == {"removed": True}


def test_a_blob_that_was_cut_short_behind_our_back(client: Client, server: ServerProcess, s3: SeaweedFS) -> None:
    client.add("cut", b"state")
    with closing(s3.client()) as behind:
        behind.put_object(Bucket=BUCKET, Key=only_blob(s3, server), Body=b"stat")
    assert problem(client.state("cut")) == (500, "corrupt")
    assert client.remove("cut").json() == {"removed": True}


def test_an_outage_is_said_and_over_without_a_restart(client: Client, server: ServerProcess, s3: SeaweedFS) -> None:
    client.add("kept", b"state")
    s3.stop()
    try:
        refused = client.add("other", b"state")
        assert problem(refused) == (503, "storage-unavailable")
        assert refused.json()["outcome"] == "not_applied"
        assert problem(client.state("kept")) == (503, "storage-unavailable")
        server.wait_for("/readyz", 503)
    finally:
        s3.start()
    server.wait_for("/readyz")
    assert client.add("other", b"state").status_code == 201
    assert client.state("kept").content == b"state"


def test_a_server_says_what_is_wrong_with_its_bucket(tmp_path: Path, s3: SeaweedFS) -> None:
    with ServerProcess(tmp_path, blobs=s3.url("never-made")) as server:
        with pytest.raises(ServerFailed, match="the bucket never-made does not exist"):
            server.start()
        assert server.wait() == 2
    with ServerProcess(tmp_path, blobs="s3://key:hunter2@bucket") as server:
        with pytest.raises(ServerFailed, match="has a user or a password in it") as failed:
            server.start()
        assert "hunter2" not in str(failed.value)
