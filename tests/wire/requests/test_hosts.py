"""Without tokens a server answers to its owner's names, not to a page that has its own point here."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.requests.test_tokens import WRITER, bearing
from tests.wire.support import raw
from tests.wire.support.api import Api, problem

OWN = [
    "localhost",
    "LocalHost:7070",
    "localhost.",
    "app.localhost:80",
    "127.0.0.1",
    "127.8.8.8:1",
    "[::1]",
    "[::1]:7070",
]
FOREIGN = [
    "evil.example",
    "evil.example:7070",
    "localhost.evil.example",
    "evil-localhost",
    "127.0.0.1.evil.example",
    "192.0.2.1",
    "[2001:db8::1]:7070",
    "milepost",
    "",
    "[::1",
    "*",
    "localhost evil.example",
    "localhost@evil.example",
    "evil.example@localhost:x",
    "localhost:80@evil.example",
    "localhost:evil.example",
    "localhost..",
    "[::1]evil.example:80",
    "[::1]:80@evil.example",
    "[localhost]",
    "[127.0.0.1]",
]


def asked(server: ServerProcess, host: str, path: str = "/v1/status", **headers: str) -> httpx.Response:
    return raw.ask(server.url, raw.head("GET", path, {"Host": host, **headers}))


@pytest.mark.parametrize("host", OWN)
def test_names_of_the_loopback(server: ServerProcess, host: str) -> None:
    assert asked(server, host).status_code == 200


@pytest.mark.parametrize("host", FOREIGN)
def test_any_other_name_reads_nothing_and_changes_nothing(server: ServerProcess, api: Api, host: str) -> None:
    detail = problem(asked(server, host), 403, "forbidden")["detail"]
    assert "--hosts" in detail
    adding = {"Host": host, "Milepost-Session": str(api.session), "Content-Length": "1"}
    request = raw.head("POST", f"/v1/stores/{api.store}/handles/a", adding) + b"x"
    problem(raw.ask(server.url, request), 403, "forbidden")
    assert api.exists("a").status_code == 404


@pytest.mark.parametrize("target", ["http://evil.example", "http://localhost@evil.example", "http://evil@localhost"])
def test_a_target_that_names_another_than_the_host_is_refused(server: ServerProcess, target: str) -> None:
    """A server goes by the target then, and by the Host otherwise: what two would read in two ways, none serves."""
    problem(raw.ask(server.url, raw.head("GET", f"{target}/v1/status")), 422, "invalid-request")
    assert raw.ask(server.url, raw.head("GET", "http://LocalHost/v1/status")).status_code == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/leader", "/metrics"])
def test_probes_are_answered_by_whatever_name(server: ServerProcess, path: str) -> None:
    """A kubelet asks by the Pod's address, a load balancer by any name; there is nothing to read there but health."""
    assert asked(server, "192.0.2.1:7070", path).status_code == 200


def test_http_1_0_without_a_host_is_of_no_browser(server: ServerProcess) -> None:
    assert raw.ask(server.url, b"GET /v1/status HTTP/1.0\r\n\r\n").status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000", "https://localhost.evil"])
def test_no_change_is_made_for_a_page_of_another(server: ServerProcess, api: Api, origin: str) -> None:
    """The one change that a page may ask for without asking the server first has neither body nor header of its own."""
    path = f"/v1/sessions/{api.session}/keepalive"
    headers = {"Origin": origin, "Content-Length": "0", "Content-Type": "text/plain"}
    problem(raw.ask(server.url, raw.head("POST", path, headers)), 403, "forbidden")
    own = {**headers, "Host": "localhost:7070", "Origin": "http://localhost:7070"}
    assert raw.ask(server.url, raw.head("POST", path, own)).status_code == 200


def test_each_of_several_origins_counts(server: ServerProcess, api: Api) -> None:
    request = raw.head("POST", f"/v1/sessions/{api.session}/keepalive", {"Origin": "http://localhost"})
    both = request.replace(b"Origin:", b"Origin: http://evil.example\r\nOrigin:")
    assert raw.ask(server.url, request).status_code == 200
    problem(raw.ask(server.url, both), 403, "forbidden")
    last = request.replace(b"\r\n\r\n", b"\r\nOrigin: http://evil.example\r\n\r\n")
    problem(raw.ask(server.url, last), 403, "forbidden")


def test_the_advertised_name_and_those_given(tmp_path: Path) -> None:
    flags = ("--hosts", "milepost, milepost.team.svc", "--advertise", "http://Pod-1.example:7070")
    with ServerProcess(tmp_path, *flags) as server:
        server.start()
        for host in ("pod-1.example:7070", "milepost", "MILEPOST.team.svc:7070", "localhost"):
            assert asked(server, host).status_code == 200
        for host in ("evil.example", "team.svc", "x.milepost", "pod-1.example.evil"):
            problem(asked(server, host), 403, "forbidden")


def test_with_tokens_a_page_has_no_token_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"writer {WRITER}\n")
    with ServerProcess(tmp_path, "--token-file", str(tmp_path / "tokens")) as server:
        server.start()
        assert asked(server, "milepost.example", **bearing(WRITER)).status_code == 200
        problem(asked(server, "milepost.example"), 401, "unauthenticated")
