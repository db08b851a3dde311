"""A server that wants a certificate of its clients answers nothing but health to those that show none."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

import milepost
from milepost.errors import AccessDenied
from testbed.server import ServerProcess
from tests.support.servers.certificates import Certificates
from tests.wire.support.api import Api, problem
from tests.wire.tls.conftest import leading
from tests.wire.webhdfs.hadoop import Tree, refused

TOKEN = "the-token-of-drivers"


@pytest.fixture(scope="module")
def demanding(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with leading(certificates, tmp_path_factory.mktemp("demanding"), *certificates.demanding) as server:
        yield server


def test_a_client_with_one(demanding: ServerProcess, certificates: Certificates, store: str) -> None:
    with (
        milepost.Client(demanding.url, verify=certificates.trusting(shown=True)) as client,
        client.session() as session,
    ):
        session.store(store).campaign()
        assert client.store(store).current_epoch().epoch == 1


def test_a_client_without_one(demanding: ServerProcess, certificates: Certificates) -> None:
    with httpx.Client(base_url=demanding.url, verify=certificates.trusting(), trust_env=False, timeout=60.0) as http:
        for path in ("/livez", "/readyz", "/leader", "/metrics"):
            assert http.get(path).status_code == 200
        assert "[+] records: ok\n" in http.get("/readyz?verbose").text
        for method, path in (
            ("GET", "/v1/status"),
            ("POST", "/v1/sessions"),
            ("POST", "/oauth2/token"),
            ("POST", "/datanodes/heartbeat"),
            ("GET", "/openapi.json"),
            ("GET", "/"),
            ("GET", "/page/main.js"),
            ("GET", "//v1/status"),
        ):
            assert "certificate" in problem(http.request(method, path), 403, "forbidden")["detail"]
        refused(http.get("/webhdfs/v1/jobs?op=LISTSTATUS"), 403, "AccessControlException")
    with (
        milepost.Client(demanding.url, verify=certificates.ca) as client,
        pytest.raises(AccessDenied, match="certificate"),
    ):
        client.status()


def test_without_one_a_job_reaches_its_files_by_the_credential_that_its_driver_got_with_one(
    certificates: Certificates, tmp_path: Path, store: str
) -> None:
    """Hadoop's client shows no certificate."""
    (tmp_path / "tokens").write_text(f"driver {TOKEN}\n")
    flags = (*certificates.demanding, "--token-file", str(tmp_path / "tokens"))
    with ServerProcess(tmp_path, *flags, tls=certificates.trusting()) as server, ExitStack() as opened:
        server.start()

        def http(token: str | None = None, *, shown: bool = False) -> httpx.Client:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            verify = certificates.trusting(shown=shown)
            client = httpx.Client(base_url=server.url, headers=headers, verify=verify, trust_env=False, timeout=60.0)
            return opened.enter_context(client)

        api = Api.on(http(TOKEN, shown=True), store)
        epoch = api.granted()
        granted = api.call("POST", "/epoch/credentials").json()
        form = {"grant_type": "client_credentials", **{name: granted[name] for name in ("client_id", "client_secret")}}
        assert http().post("/oauth2/token", data={**form, "client_secret": "wrong"}).status_code == 401
        token = http().post("/oauth2/token", data=form).json()["access_token"]
        assert Tree(http(token), store, epoch).create("file", b"of the job").status_code == 201
        assert Tree(http(token), store).read("file").content == b"of the job"
        for client in (http(TOKEN), http(token)):
            problem(client.get("/v1/status"), 403, "forbidden")
        assert "certificate" in refused(Tree(http(TOKEN), store, epoch).mkdirs("more"), 403, "AccessControlException")
        refused(Tree(http("of-nobody-0123456789"), store).ask("GET", "", "LISTSTATUS"), 401, "IOException")
        refused(Tree(http(), store).ask("GET", "", "LISTSTATUS"), 401, "IOException")


def test_a_client_with_one_of_another_authority(
    demanding: ServerProcess, certificates: Certificates, tmp_path: Path
) -> None:
    context = certificates.trusting()
    Certificates(tmp_path).authority.issue_cert("driver@example.org").configure_cert(context)
    with (
        httpx.Client(base_url=demanding.url, verify=context, trust_env=False, timeout=60.0) as http,
        pytest.raises((httpx.ReadError, httpx.ConnectError), match=r"(?i)alert unknown ca"),
    ):
        http.get("/livez")


def test_a_session_of_tls_that_is_taken_up_again_has_its_certificate(
    demanding: ServerProcess, certificates: Certificates
) -> None:
    context = certificates.trusting(shown=True)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with httpx.Client(base_url=demanding.url, verify=context, trust_env=False, timeout=60.0) as http:
        for _ in range(3):
            assert http.get("/v1/status", headers={"Connection": "close"}).status_code == 200
