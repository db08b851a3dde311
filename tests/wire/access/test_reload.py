"""Tokens are exchanged under load without a request that fails, and wrong files change nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from testbed.server import ServerProcess
from tests.support.servers.certificates import Certificates
from tests.wire.support.api import Api, connect, problem, until
from tests.wire.support.events import watching
from tests.wire.support.under_load import Load
from tests.wire.webhdfs.hadoop import Tree, refused

pytestmark = pytest.mark.later

KEPT = "token-that-is-kept-0123456789"
OLD = "token-that-is-replaced-01234"
NEW = "token-that-comes-instead-012"


class Secret:
    """A file as Kubernetes mounts a Secret: a link to a directory that is itself a link, which alone is replaced."""

    def __init__(self, directory: Path, *lines: str) -> None:
        directory.mkdir()
        self._directory = directory
        self._number = 0
        self.file = directory / "tokens"
        self.put(*lines)
        self.file.symlink_to("..data/tokens")

    def put(self, *lines: str) -> None:
        self._number += 1
        new = self._directory / f"..{self._number}"
        new.mkdir()
        (new / "tokens").write_text("".join(f"{line}\n" for line in lines))
        link = self._directory / "..new"
        link.symlink_to(new.name)
        os.replace(link, self._directory / "..data")


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret(tmp_path / "secret", f"kept {KEPT} writer=*", f"old {OLD}")


@pytest.fixture
def server(secret: Secret, tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, "--token-file", str(secret.file)) as process:
        yield process.start()


def bearing(server: ServerProcess, token: str) -> httpx.Client:
    client = connect(server.url)
    client.headers["Authorization"] = f"Bearer {token}"
    return client


def status(server: ServerProcess, token: str) -> int:
    with bearing(server, token) as http:
        return http.get("/v1/whoami").status_code


def read_certificates(process: ServerProcess, times: int) -> bool:
    return process.logged().count("act=read-certificates") >= times


def test_tokens_and_certificates_are_exchanged_under_load(tmp_path: Path) -> None:
    own = Certificates(tmp_path)
    mounted = Secret(tmp_path / "secret", f"kept {KEPT} writer=*", f"old {OLD}")
    bearer = {"Authorization": f"Bearer {KEPT}"}
    with ExitStack() as running:
        flags = (*own.flags, "--token-file", str(mounted.file))
        process = running.enter_context(ServerProcess(tmp_path, *flags, tls=own.trusting()))
        process.start()
        loads = [running.enter_context(Load(process, own, f"load-{number}", bearer)) for number in range(2)]
        for number in range(1, 4):
            mounted.put(f"kept sha256:{sha256(KEPT.encode()).hexdigest()} writer=*", f"new-{number} {NEW}-{number}")
            own.renew()
            process.wait_for_log(f"added new-{number}")
            until(partial(read_certificates, process, number), "the certificates are read")
        asked = [load.asked for load in loads]
        until(lambda: all(load.asked > was + 10 for load, was in zip(loads, asked, strict=True)), "it goes on")
    assert [load.failed for load in loads] == [[], []]


def test_what_left_the_list_is_refused_and_what_came_is_taken(server: ServerProcess, secret: Secret) -> None:
    assert (status(server, OLD), status(server, NEW), status(server, KEPT)) == (200, 401, 200)
    secret.put(f"kept {KEPT} reader=*", f"new {NEW}")
    until(lambda: status(server, NEW) == 200, "the new token is known")
    assert (status(server, OLD), status(server, KEPT)) == (401, 200)
    with bearing(server, KEPT) as http:
        problem(http.post("/v1/sessions", json={"ttl": 9}), 403, "forbidden")
    server.wait_for_log('act=read-tokens on="2 clients" by=- outcome=done request=- detail="added new; removed old"')
    for token in (OLD, NEW, KEPT):
        assert token not in server.logged()


@pytest.mark.parametrize("broken", [("kept",), (f"kept {KEPT} wrier=*",), (), ("# nothing",)])
def test_a_broken_file_changes_nothing_and_is_named_once(
    server: ServerProcess, secret: Secret, broken: tuple[str, ...]
) -> None:
    secret.put(*broken)
    server.wait_for_log("the new tokens cannot be used")
    assert (status(server, OLD), status(server, KEPT)) == (200, 200)
    secret.file.unlink()  # and now it is gone
    until(lambda: server.logged().count("cannot be used") == 2, "that is named too")
    assert (status(server, OLD), status(server, KEPT)) == (200, 200)
    said = [line for line in server.logged().splitlines() if "cannot be used" in line]
    assert all("ERROR milepost.tokens" in line for line in said)
    assert all("those from before stay in use until the files change again" in line for line in said)
    assert KEPT not in server.logged()
    secret.file.symlink_to("..data/tokens")
    secret.put(f"new {NEW}")
    until(lambda: status(server, NEW) == 200, "a good file is read again")
    assert status(server, KEPT) == 401


@pytest.mark.parametrize("hashed", [False, True], ids=["plain", "hashed"])
@pytest.mark.parametrize("end", ["gone", "other stores", "read-only"])
def test_a_jobs_credential_ends_with_the_right_that_it_came_from(
    server: ServerProcess, secret: Secret, store: str, end: str, hashed: bool
) -> None:
    token = f"sha256:{sha256(KEPT.encode()).hexdigest()}" if hashed else KEPT
    secret.put(f"kept {token} writer={store}", f"old {OLD}", f"marks {NEW}-1")
    until(lambda: status(server, f"{NEW}-1") == 200, "the tokens are read")
    with bearing(server, KEPT) as http, connect(server.url) as bare:
        api = Api.on(http, store)
        epoch = api.granted()
        told = api.call("POST", "/epoch/credentials").json()
        form = {"grant_type": "client_credentials", **{key: told[key] for key in ("client_id", "client_secret")}}
        job = Tree(bare, store, None, bare.post("/oauth2/token", data=form).json()["access_token"])
        assert job.create("file", b"v1").status_code == 201
        again = api.call("POST", "/epoch/credentials").json()
        assert again == told
        line = {"gone": "", "other stores": f"kept {token} writer={store}x", "read-only": f"kept {token} read-only"}
        secret.put(line[end], f"old {OLD}", f"marks {NEW}-2")
        until(lambda: status(server, f"{NEW}-2") == 200, "the tokens are read")
        refused(job.read("file"), 401, "IOException")
        refused(job.mkdirs("d"), 401, "IOException")
        assert bare.post("/oauth2/token", data=form).json() == {"error": "invalid_client"}
        secret.put(f"kept {token} writer={store}*", f"old {OLD}", f"marks {NEW}-3")
        until(lambda: status(server, f"{NEW}-3") == 200, "the tokens are read")
        assert job.read("file").content == b"v1"
        assert replace(job, epoch=epoch).mkdirs("d").status_code == 200


def test_who_reads_the_hashed_file_can_make_no_credential_of_it(
    server: ServerProcess, secret: Secret, store: str
) -> None:
    """What is derived from a digest alone is what a release without hashed files would have made."""
    from milepost_server.http.access.job_tokens import _proof
    from milepost_server.http.access.tokens import id_of

    digest = sha256(KEPT.encode()).digest()
    secret.put(f"kept sha256:{digest.hex()} writer=*", f"new {NEW}")
    until(lambda: status(server, NEW) == 200, "the tokens are read")
    with connect(server.url) as bare:
        forged = {
            "client_id": f"{store}-1",
            "client_secret": f"{id_of(digest)}~{_proof(digest, 'credential', store, '1')}",
        }
        answer = bare.post("/oauth2/token", data={"grant_type": "client_credentials", **forged})
        assert (answer.status_code, answer.json()) == (401, {"error": "invalid_client"})
        secret.put(f"kept {KEPT} writer=*", f"new {NEW}-2")
        until(lambda: status(server, f"{NEW}-2") == 200, "the tokens are read")
        answer = bare.post("/oauth2/token", data={"grant_type": "client_credentials", **forged})
        assert answer.status_code == 200  # the forgery was made well: with the token itself in the file it is one


def test_a_stream_of_events_ends_with_its_token(server: ServerProcess, secret: Secret) -> None:
    with bearing(server, KEPT) as kept, bearing(server, OLD) as old:
        api = Api.on(kept, "s")
        api.granted()
        with watching(old, "s", 0, of="jobs") as job, watching(old, "s") as stream:
            assert job.next().type == "epoch-granted"
            api.under(1).added("h")
            assert stream.next().data["name"] == "h"
            secret.put(f"kept {KEPT} writer=*")
            for each in (stream, job):
                event = each.next()
                assert (event.type, event.data) == ("end", {"reason": "unauthenticated"})
                assert each.block() is None
        for of in ("stores", "jobs"):
            problem(old.get(f"/v1/{of}/s/events"), 401, "unauthenticated")
