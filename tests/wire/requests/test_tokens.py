"""401 and 403, on a server with a token file."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support.api import connect, problem

WRITER = "writer-token-0123456789"
READER = "reader-token-0123456789"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("tokens")
    (directory / "tokens").write_text(f"# clients\nwriter {WRITER}\nreader {READER} read-only\n")
    with ServerProcess(directory, "--token-file", str(directory / "tokens")) as server:
        yield server.start()


@pytest.fixture(scope="module")
def http(guarded: ServerProcess) -> Iterator[httpx.Client]:
    with connect(guarded.url) as client:
        yield client


def bearing(token: str, scheme: str = "Bearer") -> dict[str, str]:
    return {"Authorization": f"{scheme} {token}"}


WRONG = {
    "none": {},
    "unknown": bearing("unknown-token-0123456789"),
    "cut": bearing(WRITER[:-1]),
    "longer": bearing(WRITER + "x"),
    "empty": {"Authorization": "Bearer"},
    "basic": bearing("d3JpdGVyOnRva2Vu", "Basic"),
    "bare": {"Authorization": WRITER},
}


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG)
def test_without_a_known_token_nothing_under_v1_is_shown(http: httpx.Client, headers: dict[str, str]) -> None:
    calls = [("GET", "/v1/status"), ("GET", "/v1/stores"), ("GET", "/v1/nowhere"), ("POST", "/v1/sessions")]
    for method, path in calls:
        response = http.request(method, path, headers=headers)
        problem(response, 401, "unauthenticated")
        assert response.headers["www-authenticate"] == "Bearer"


def test_a_reader_reads_and_does_not_write(http: httpx.Client) -> None:
    body = {"ttl": 900, "holder": "h", "session": "held-by-writer"}
    assert http.post("/v1/sessions", json=body, headers=bearing(WRITER)).status_code == 201
    reader = {**bearing(READER), "Milepost-Session": "held-by-writer"}
    for path in ("/v1/status", "/v1/stores", "/v1/stores/s/handles", "/v1/sessions/held-by-writer"):
        assert http.get(path, headers=reader).status_code == 200
    writes = [
        ("POST", "/v1/sessions"),
        ("POST", "/v1/sessions/held-by-writer/keepalive"),
        ("DELETE", "/v1/sessions/held-by-writer"),
        ("POST", "/v1/stores/s/handles/a"),
        ("PUT", "/v1/stores/s/handles/a"),
        ("DELETE", "/v1/stores/s/handles/a"),
        ("POST", "/v1/stores/s/locks"),
        ("POST", "/v1/stores/s/epoch"),
    ]
    for method, path in writes:
        problem(http.request(method, path, headers=reader), 403, "forbidden")
    assert http.get("/v1/stores", headers=reader).json()["stores"] == []
    assert http.get("/v1/sessions/held-by-writer", headers=reader).status_code == 200


def test_a_writer_writes(http: httpx.Client) -> None:
    body = {"ttl": 900, "holder": "h", "session": "writes"}
    headers = {**bearing(WRITER, "bearer"), "Milepost-Session": "writes"}
    assert http.post("/v1/sessions", json=body, headers=headers).status_code == 201
    assert http.post("/v1/stores/written/handles/a", content=b"x", headers=headers).status_code == 201
    assert http.get("/v1/stores/written/handles/a/state", headers=bearing(READER)).content == b"x"


WITHOUT_ONE = ["/livez", "/readyz", "/leader", "/metrics", "/docs", "/openapi.json", "/", "/page/main.js"]


@pytest.mark.parametrize("path", WITHOUT_ONE)
def test_health_metrics_and_the_pages_need_none(http: httpx.Client, path: str) -> None:
    assert http.get(path).status_code == 200


def test_the_log_names_whose_token_it_was(guarded: ServerProcess, http: httpx.Client) -> None:
    asked = {
        "of-a-writer": bearing(WRITER),
        "of-a-reader": bearing(READER),
        "of-nobody": bearing("unknown-token-012345"),
    }
    for mark, headers in asked.items():
        http.get("/v1/status", headers={**headers, "X-Request-Id": mark})
        guarded.wait_for_log(mark)
    http.post("/v1/sessions", headers={**bearing(READER), "X-Request-Id": "refused"}, json={"ttl": 9})
    guarded.wait_for_log(" refused reader\n")
    for line in ("of-a-writer writer", "of-a-reader reader", "of-nobody -"):
        assert f" {line}\n" in guarded.logged()


def test_no_token_is_ever_logged(guarded: ServerProcess, http: httpx.Client) -> None:
    http.get("/v1/status", headers={**bearing(WRITER), "X-Request-Id": "looked-for"})
    guarded.wait_for_log("looked-for")
    assert WRITER not in guarded.logged()
    assert READER not in guarded.logged()
