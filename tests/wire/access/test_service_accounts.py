"""Clients that show tokens of ServiceAccounts, on a server that asks a real Kubernetes API whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from testbed.server import ServerProcess
from tests.contracts.places import Services
from tests.support.servers import kubernetes
from tests.wire.support.api import Api, connect, problem, unique, until
from tests.wire.webhdfs.hadoop import Tree, refused

pytestmark = pytest.mark.kubernetes

AUDIENCE = "milepost"
LISTED = "listed-token-0123456789"


def accounts_file(directory: Path, namespace: str, *lines: str) -> Path:
    file = directory / "tokens"
    draft = directory / "tokens.new"
    draft.write_text("\n".join([f"listed {LISTED}", *(f"serviceaccount:{namespace}/{line}" for line in lines)]))
    draft.replace(file)
    return file


@pytest.fixture(scope="module")
def site(services: Services) -> kubernetes.Site:
    made = kubernetes.site(kubernetes.shared_api(services))
    made.may_review_tokens()
    for name in ("driver", "dashboard", "nobody"):
        made.api.admin.account(made.namespace, name)
    return made


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("accounts")


LINES = ("driver writer=a-*", "* reader=a-*")


@pytest.fixture(scope="module")
def asking(site: kubernetes.Site, directory: Path) -> Iterator[ServerProcess]:
    """It has its pointers in files, and asks the cluster that KUBECONFIG names."""
    file = accounts_file(directory, site.namespace, *LINES)
    flags = ("--token-file", str(file), "--service-accounts", AUDIENCE)
    with ServerProcess(directory, *flags, environment={"KUBECONFIG": str(site.kubeconfig)}) as server:
        yield server.start()


def bearing(server: ServerProcess, token: str) -> httpx.Client:
    client = connect(server.url)
    client.headers["Authorization"] = f"Bearer {token}"
    return client


def test_an_account_may_do_what_its_lines_say(asking: ServerProcess, site: kubernetes.Site, store: str) -> None:
    admin, namespace = site.api.admin, site.namespace
    with bearing(asking, admin.token(namespace, "driver", AUDIENCE)) as http:
        me = http.get("/v1/whoami").json()
        assert me == {
            "name": f"serviceaccount:{namespace}/driver",
            "reader": ["a-*"],
            "writer": ["a-*"],
            "admin": False,
        }
        driver = Api.on(http, f"a-{store}")
        driver.added("latest")
        problem(driver.http.get(f"/v1/stores/b-{store}/handles"), 403, "forbidden")
    with bearing(asking, admin.token(namespace, "driver", AUDIENCE)) as http:  # another token of the same account
        assert http.get(f"/v1/sessions/{driver.session}").status_code == 200
    with bearing(asking, admin.token(namespace, "dashboard", AUDIENCE)) as http:
        assert http.get(f"/v1/stores/a-{store}/handles/latest/state").content == b"state"
        problem(http.post("/v1/sessions", json={"ttl": 9}), 403, "forbidden")
        problem(http.get(f"/v1/sessions/{driver.session}"), 403, "forbidden")
    with bearing(asking, LISTED) as http:
        assert http.get("/v1/whoami").json()["admin"] is True


def test_who_is_not_meant_is_not_known(asking: ServerProcess, site: kubernetes.Site) -> None:
    admin = site.api.admin
    other = kubernetes.site(site.api)
    good = admin.token(site.namespace, "driver", AUDIENCE)
    head, claims, proof = good.split(".")
    tokens = {
        "for the API server": admin.token(site.namespace, "driver"),
        "for others": admin.token(site.namespace, "driver", "another"),
        "of another namespace": admin.token(other.namespace, "milepost", AUDIENCE),
        "with another proof": f"{head}.{claims}.{'A' * len(proof)}",
        "with other claims": f"{head}.{admin.token(site.namespace, 'nobody', AUDIENCE).split('.')[1]}.{proof}",
        "cut": good[:-2],
    }
    for what, token in tokens.items():
        with bearing(asking, token) as http:
            assert http.get("/v1/whoami").status_code == 401, what
        assert token not in asking.logged()
    assert good not in asking.logged()


def test_the_credential_of_an_accounts_job(
    asking: ServerProcess, site: kubernetes.Site, directory: Path, store: str
) -> None:
    with bearing(asking, site.api.admin.token(site.namespace, "driver", AUDIENCE)) as http, connect(asking.url) as bare:
        driver = Api.on(http, f"a-{store}")
        epoch = driver.granted()
        told = driver.call("POST", "/epoch/credentials").json()
        form = {"grant_type": "client_credentials", **{key: told[key] for key in ("client_id", "client_secret")}}
        token = bare.post("/oauth2/token", data=form).json()["access_token"]
        job = Tree(bare, driver.store, None, token)
        assert job.create("file", b"v1").status_code == 201
        forged = told["client_secret"].replace(".driver~", ".dashboard~")
        assert forged != told["client_secret"]
        assert bare.post("/oauth2/token", data={**form, "client_secret": forged}).status_code == 401
        accounts_file(directory, site.namespace, "* reader=a-*")
        until(lambda: http.get("/v1/whoami").json()["writer"] == [], "the lines are read")
        refused(job.read("file"), 401, "IOException")
        assert bare.post("/oauth2/token", data=form).status_code == 401
        accounts_file(directory, site.namespace, *LINES)
        until(lambda: http.get("/v1/whoami").json()["writer"] == ["a-*"], "the lines are read")
        assert job.read("file").content == b"v1"
        assert driver.current().json()["epoch"] == epoch


def test_while_the_cluster_does_not_answer_nobody_is_told_to_be_unknown(tmp_path: Path) -> None:
    """Who was known a moment ago stays so; others are told to come again, and listed tokens need no cluster."""
    with kubernetes.running(tmp_path) as api:
        site = kubernetes.site(api)
        site.may_review_tokens()
        api.admin.account(site.namespace, "driver")
        known, other = (api.admin.token(site.namespace, "driver", AUDIENCE) for _ in range(2))
        file = accounts_file(tmp_path, site.namespace, "driver writer=*")
        flags = ("--token-file", str(file), "--service-accounts", AUDIENCE)
        with ServerProcess(tmp_path, *flags, environment={"KUBECONFIG": str(site.kubeconfig)}) as server:
            server.start()
            with bearing(server, known) as http, bearing(server, other) as stranger, bearing(server, LISTED) as listed:
                assert http.get("/v1/whoami").status_code == 200
                api.server.kill()
                assert http.get("/v1/whoami").status_code == 200
                assert listed.get("/v1/whoami").status_code == 200
                for _ in range(2):
                    assert problem(stranger.get("/v1/whoami"), 503, "storage-unavailable")["retryable"] is True
                refused(Tree(stranger, unique("x")).ask("GET", "", "LISTSTATUS"), 403, "RetriableException")
                assert server.logged().count("tokens of ServiceAccounts cannot be looked up") == 1
                api.start()
                until(lambda: stranger.get("/v1/whoami").status_code == 200, "it is looked up again")
                assert "tokens of ServiceAccounts are looked up again" in server.logged()


def test_a_file_with_accounts_needs_the_flag_that_they_are_taken(tmp_path: Path) -> None:
    file = accounts_file(tmp_path, "spark", "driver writer=*")
    with ServerProcess(tmp_path, "--token-file", str(file)) as server:
        server.start(until=None)
        server.wait_until(lambda: not server.running, "it does not end")
        assert server.logged().startswith(f"milepost-server: {file}, line 2: serviceaccount: needs --service-accounts")
