"""Files on a service with tokens: a request says whose it is, and a job's token opens the files of that job alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

import milepost
from milepost.core.checkpoint_location import checkpoint_location
from milepost_server.http.access.job_tokens import LIFE_SECONDS
from testbed.server import ServerProcess
from tests.wire.support.api import Api, Json, connect, problem
from tests.wire.webhdfs.hadoop import Tree, refused

WRITER = "writer-token-0123456789"
READER = "reader-token-0123456789"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("tokens")
    (directory / "tokens").write_text(f"writer {WRITER}\nreader {READER} read-only\n")
    with ServerProcess(directory, "--token-file", str(directory / "tokens")) as server:
        yield server.start()


@pytest.fixture(scope="module")
def http(guarded: ServerProcess) -> Iterator[httpx.Client]:
    """Without a token of its own."""
    with connect(guarded.url) as client:
        yield client


@pytest.fixture
def api(guarded: ServerProcess, store: str) -> Iterator[Api]:
    """A driver, with a token that may write."""
    with connect(guarded.url) as client:
        client.headers["Authorization"] = f"Bearer {WRITER}"
        yield Api.on(client, store)


def credential(api: Api) -> Json:
    answer = api.call("POST", "/epoch/credentials")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def form(told: Json, **other: str) -> dict[str, str]:
    asked = {"grant_type": "client_credentials", **{key: told[key] for key in ("client_id", "client_secret")}}
    return {**asked, **other}


def led(api: Api, http: httpx.Client) -> Tree:
    """The tree of a job under the epoch that the driver gets, with a token of that job."""
    epoch = api.campaign().json()["epoch"]
    told = credential(api)
    assert told["epoch"] == epoch
    answer = http.post(told["token_path"], data=form(told))
    assert answer.status_code == 200, answer.text
    assert answer.json()["token_type"] == "Bearer"
    assert answer.json()["expires_in"] == LIFE_SECONDS
    return Tree(http, api.store, None, answer.json()["access_token"])


def test_without_a_token_files_are_not_shown(api: Api, http: httpx.Client) -> None:
    for token in (None, "unknown-token-0123456789", "milepost-job~0~x~1~1~0"):
        answer = Tree(http, api.store, None, token).ask("GET", "", "LISTSTATUS")
        assert answer.headers["www-authenticate"] == "Bearer"
        refused(answer, 401, "IOException")


def test_a_job_writes_and_reads_with_its_token_and_needs_no_header(api: Api, http: httpx.Client) -> None:
    tree = led(api, http)
    assert tree.create("a/b", b"v1").status_code == 201
    assert tree.create("a/large", b"x" * 100_000).status_code == 201
    assert tree.rename("a/b", "a/c").status_code == 200
    assert tree.read("a/c").content == b"v1"
    assert tree.read("a/large", 99_000).content == b"x" * 1000
    assert tree.names("a") == ["c", "large"]


def test_the_token_of_a_job_opens_nothing_else(api: Api, http: httpx.Client) -> None:
    tree = led(api, http)
    other = replace(api, store=f"{api.store}-2")
    led(other, http).create("secret", b"v1")
    stranger = replace(tree, job=other.store)
    for answer in (stranger.ask("GET", "secret", "OPEN"), stranger.ask("GET", "", "LISTSTATUS"), stranger.mkdirs("d")):
        assert tree.job in refused(answer, 403, "AccessControlException")
    moved = tree.ask("PUT", "a", "RENAME", destination=f"/jobs/{other.store}/a", renameoptions="NONE")
    refused(moved, 403, "IOException")
    for method, path in (("GET", "/v1/stores"), ("POST", "/v1/sessions"), ("GET", f"/v1/stores/{tree.job}/handles")):
        problem(http.request(method, path, headers=tree.told()), 403, "forbidden")
    listed = http.get("/webhdfs/v1/jobs", params={"op": "LISTSTATUS"}, headers=tree.told()).json()
    assert [status["pathSuffix"] for status in listed["FileStatuses"]["FileStatus"]] == [tree.job]


def test_a_token_is_worth_no_more_than_its_epoch(api: Api, http: httpx.Client) -> None:
    old = led(api, http)
    old.create("file", b"v1")
    location = old.ask("PUT", "late", "CREATE").headers["location"]
    told = credential(api)
    api.resign()
    new = led(api.other(), http)
    again = replace(old, token=http.post(told["token_path"], data=form(told)).json()["access_token"])
    for zombie in (old, again):
        assert "epoch" in refused(zombie.create("other", b"x"), 403, "AccessControlException")
        refused(zombie.delete("file"), 403, "AccessControlException")
        assert zombie.read("file").content == b"v1"
    refused(old.send(location, b"bytes that were on their way"), 403, "AccessControlException")
    refused(replace(old, epoch=2).mkdirs("d"), 403, "AccessControlException")
    assert new.create("file", b"v2", overwrite=True).status_code == 201


def test_only_who_holds_the_epoch_gets_its_credential(api: Api, http: httpx.Client) -> None:
    problem(api.call("POST", "/epoch/credentials"), 409, "fenced")
    api.campaign()
    assert credential(api) == credential(api)
    assert problem(api.other().call("POST", "/epoch/credentials"), 409, "fenced")["current"] == 1
    problem(replace(api, session="nobody").call("POST", "/epoch/credentials"), 404, "session-unknown")
    reading = replace(api, http=http, extra={"Authorization": f"Bearer {READER}"})
    problem(reading.call("POST", "/epoch/credentials"), 403, "forbidden")


def test_a_credential_cannot_be_made_one_for_another_epoch_or_job(api: Api, http: httpx.Client) -> None:
    api.campaign()
    told = credential(api)
    secret = told["client_secret"]
    forged: list[dict[str, str]] = [
        {"client_id": f"{api.store}-2"},
        {"client_id": f"{api.store}x-1"},
        {"client_id": api.store},
        {"client_secret": secret[:-1] + ("0" if secret[-1] != "0" else "1")},
        {"client_secret": secret.upper()},
        {"client_secret": ""},
        {"client_secret": WRITER},
    ]
    for other in forged:
        answer = http.post("/oauth2/token", data=form(told, **other))
        assert (answer.status_code, answer.json()) == (401, {"error": "invalid_client"})
    token = http.post("/oauth2/token", data=form(told)).json()["access_token"]
    prefix, parent, store, epoch, expires, proof = token.split("~")
    for parts in ((parent, store, "2", expires, proof), (parent, store, epoch, f"{expires}0", proof)):
        refused(Tree(http, store, None, "~".join((prefix, *parts))).mkdirs("d"), 401, "IOException")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"data": {"grant_type": "password"}}, "unsupported_grant_type"),
        ({"json": {}}, "invalid_request"),
        ({"data": {f"f{number}": "" for number in range(50)}}, "invalid_request"),
        ({"data": {"grant_type": "x" * 100_000}}, "invalid_request"),
    ],
    ids=["grant", "json", "fields", "long"],
)
def test_what_is_no_form_for_a_token_is_refused(http: httpx.Client, body: Json, error: str) -> None:
    answer = http.post("/oauth2/token", **body)
    assert (answer.status_code, answer.json()) == (400, {"error": error})


def test_without_tokens_no_credential_is_needed(tmp_path_factory: pytest.TempPathFactory) -> None:
    with ServerProcess(tmp_path_factory.mktemp("open")) as server:
        server.start()
        with milepost.Client(server.url) as client, client.session(holder="driver") as session:
            store = session.store("flights")
            store.campaign()
            assert store.file_credential() is None


def test_the_sdk_puts_the_credential_into_the_settings(guarded: ServerProcess, store: str) -> None:
    with milepost.Client(guarded.url, token=WRITER) as client, client.session(holder="driver") as session:
        job = session.store(store)
        with pytest.raises(milepost.Fenced):
            job.file_credential()
        epoch = job.campaign().epoch
        told = job.file_credential()
        assert told is not None
        location = checkpoint_location([guarded.url], store, epoch, credential=told)
    assert location.settings["dfs.webhdfs.oauth2.refresh.url"] == f"{guarded.url}/oauth2/token"
    assert location.settings["dfs.webhdfs.oauth2.credential"] == told.client_secret
    assert told.client_secret not in repr(told) + repr(location)
    assert not checkpoint_location([guarded.url], store, epoch).settings.keys() & {"dfs.webhdfs.oauth2.enabled"}


def test_no_secret_of_a_job_is_ever_logged(guarded: ServerProcess, api: Api, http: httpx.Client) -> None:
    tree = led(api, http)
    told = credential(api)
    data_node = tree.ask("PUT", "file", "CREATE").headers["location"]
    tree.send(data_node, b"v1")
    refused(tree.create("file/x", b"v1"), 403, "ParentNotDirectoryException")
    http.get("/v1/status", headers={"X-Request-Id": "looked-for"})
    guarded.wait_for_log("looked-for")
    logged = guarded.logged()
    assert f"writer/{api.store}-1" in logged
    assert tree.token is not None
    for secret in (told["client_secret"], tree.token, data_node.partition("?")[2]):
        assert secret not in logged
