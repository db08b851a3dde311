"""Requests go over the wire once each, with who we are, and with an end in time.

The other side is scripted, because a real API server does not break off or fall silent when told to.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from milepost_backends.contract import BackendError, Misconfigured
from milepost_backends.kubernetes.address import KubernetesAddress
from milepost_backends.kubernetes.client import METADATA, KubernetesClient
from milepost_backends.kubernetes.errors import NoAnswer, NotSent
from testbed.ports import Port
from tests.support.network.scripted_server import Behaviour, ScriptedServer, cut, reply, stall
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

OK = b'{"kind": "ConfigMap"}'
ANSWERS = reply(200, OK, Milepost_Term="")
BREAKS_OFF = cut(reset=False)
BREAKS_OFF_IN_THE_BODY = cut(after=b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", reset=False)
SAYS_NOTHING = stall()
REDIRECTS = reply(302, Milepost_Term="", Location="/elsewhere")


@asynccontextmanager
async def serving(*script: Behaviour) -> AsyncIterator[ScriptedServer]:
    """Answer requests within the block by the script, and by the last of it again and again."""
    with ScriptedServer(itertools.chain(script, itertools.repeat(script[-1]))) as server:
        yield server


async def has_taken(server: ScriptedServer, number: int) -> None:
    """Wait for so many requests."""

    async def enough() -> bool:
        return len(server.seen) >= number

    await until(enough)


def kubeconfig(
    directory: Path, port: int, user: object = None, namespace: str | None = "team", host: str = "127.0.0.1"
) -> Path:
    """A file as kubectl reads it; JSON is YAML."""
    context = {"cluster": "there", "user": "us"} | ({"namespace": namespace} if namespace else {})
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "there", "cluster": {"server": f"http://{host}:{port}"}}],
        "users": [{"name": "us", "user": user or {"token": "secret"}}],
        "contexts": [
            {"name": "main", "context": context},
            {"name": "other", "context": {**context, "namespace": "another"}},
        ],
        "current-context": "main",
    }
    file = directory / "kubeconfig"
    file.write_text(json.dumps(content))
    return file


@asynccontextmanager
async def opened(file: Path, timeout: float = 20.0) -> AsyncIterator[KubernetesClient]:
    client = KubernetesClient(KubernetesAddress(kubeconfig=file), "tests", timeout=timeout)
    await client.open()
    try:
        yield client
    finally:
        await client.close()


async def test_a_request_carries_what_it_has_to(tmp_path: Path) -> None:
    async with serving(ANSWERS) as server, opened(kubeconfig(tmp_path, server.port)) as client:
        answer = await client.request("PUT", "/api/x", body=b"{}", query={"a": "b c"}, accept=METADATA)
        assert (answer.status, answer.body, answer.done) == (200, OK, True)
        await client.request("GET", "/api/x")
        first, second = server.seen
        assert (first.method, first.path) == ("PUT", "/api/x?a=b+c")
        headers = first.headers
        assert headers["authorization"].lower().split() == ["bearer", "secret"]
        assert headers["accept"] == METADATA
        assert headers["content-type"] == "application/json"
        assert headers["user-agent"].startswith("milepost-server/")
        assert (first.body, second.body) == (b"{}", b"")
        assert client.bytes_sent == 2


@pytest.mark.parametrize("behaviour", [BREAKS_OFF, BREAKS_OFF_IN_THE_BODY])
async def test_a_request_whose_connection_breaks_is_not_sent_again(tmp_path: Path, behaviour: Behaviour) -> None:
    async with serving(behaviour) as server, opened(kubeconfig(tmp_path, server.port)) as client:
        with pytest.raises(NoAnswer, match="PUT /api/x"):
            await client.request("PUT", "/api/x", body=b"{}")
        await asyncio.sleep(0.05)
        assert len(server.seen) == 1


async def test_a_kept_connection_that_breaks_under_a_request_is_no_reason_to_send_it_again(tmp_path: Path) -> None:
    async with serving(ANSWERS, BREAKS_OFF) as server, opened(kubeconfig(tmp_path, server.port)) as client:
        await client.request("GET", "/api/x")
        with pytest.raises(NoAnswer):
            await client.request("PUT", "/api/x", body=b"{}")
        assert len(server.seen) == 2


async def test_silence_ends_in_time_and_is_no_answer(tmp_path: Path) -> None:
    async with serving(SAYS_NOTHING) as server, opened(kubeconfig(tmp_path, server.port), timeout=0.3) as client:
        with pytest.raises(NoAnswer):
            await client.request("PUT", "/api/x", body=b"{}")
        with pytest.raises(NoAnswer):
            await client.request("PUT", "/api/x", body=b"{}", timeout=0.2)


async def test_a_redirection_is_an_answer_and_not_followed(tmp_path: Path) -> None:
    async with serving(REDIRECTS) as server, opened(kubeconfig(tmp_path, server.port)) as client:
        assert (await client.request("PUT", "/api/x", body=b"{}")).status == 302
        assert len(server.seen) == 1


async def test_where_nobody_listens_nothing_was_sent(tmp_path: Path) -> None:
    port = Port()
    async with opened(kubeconfig(tmp_path, port.number)) as client:
        with pytest.raises(NotSent):
            await client.request("PUT", "/api/x", body=b"{}")


async def test_one_that_waits_for_a_thread_until_its_end_was_not_sent(tmp_path: Path) -> None:
    async with serving(SAYS_NOTHING) as server, opened(kubeconfig(tmp_path, server.port), timeout=60.0) as client:
        waiting = [asyncio.ensure_future(client.request("PUT", "/api/x", body=b"{}")) for _ in range(4)]
        await has_taken(server, 4)
        with pytest.raises(NotSent):
            await client.request("PUT", "/api/y", body=b"{}", timeout=0.1)
        server.cut()
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(end) for end in ends} == {NoAnswer}
        assert not any("/api/y" in request.path for request in server.seen)


async def test_a_cancelled_request_goes_its_way(tmp_path: Path) -> None:
    async with serving(ANSWERS) as server, opened(kubeconfig(tmp_path, server.port)) as client:
        request = asyncio.ensure_future(client.request("PUT", "/api/x", body=b"{}"))
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await has_taken(server, 1)
        assert (await client.request("GET", "/api/x")).done


async def test_before_open_and_after_close_nothing_is_sent(tmp_path: Path) -> None:
    async with serving(ANSWERS) as server:
        client = KubernetesClient(KubernetesAddress(kubeconfig=kubeconfig(tmp_path, server.port)), "tests")
        with pytest.raises(NotSent):
            await client.request("GET", "/api/x")
        await client.open()
        await client.open()
        assert (await client.request("GET", "/api/x")).done
        await client.close()
        await client.close()
        with pytest.raises(NotSent):
            await client.request("GET", "/api/x")
        await client.open()
        assert (await client.request("GET", "/api/x")).done
        await client.close()


async def test_credentials_that_expire_are_asked_for_anew(tmp_path: Path) -> None:
    """A program gives them, as the clients of several clouds do: each time another token, which has expired already."""
    program = tmp_path / "credentials"
    program.write_text(
        "#!/bin/sh\n"
        f"echo x >> {tmp_path}/calls\n"
        f"n=$(wc -l < {tmp_path}/calls | tr -d ' ')\n"
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"expirationTimestamp": "2020-01-01T00:00:00Z", "token": "\'"token-$n"\'"}}\'\n'
    )
    program.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}}
    async with serving(ANSWERS) as server, opened(kubeconfig(tmp_path, server.port, user)) as client:
        for _ in range(3):
            await client.request("GET", "/api/x")
        tokens = {request.headers["authorization"].split()[-1] for request in server.seen}
        assert len(tokens) == 3


@pytest.mark.parametrize("token", ["SECRET-ONE\nSECRET-TWO", "SECRET\u2026", "SECRET\tONE"])
async def test_a_token_that_cannot_be_sent_is_reported_without_it(tmp_path: Path, token: str) -> None:
    async with serving(ANSWERS) as server:
        async with opened(kubeconfig(tmp_path, server.port, {"token": token})) as client:
            with pytest.raises(NotSent, match="one line of printable ASCII") as raised:
                await client.request("PUT", "/api/x", body=b"{}")
        assert server.seen == []
    assert "SECRET" not in "".join(traceback.format_exception(raised.value))


async def test_an_error_of_the_pool_is_reported_without_what_it_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool here fails as no real one is known to: what is known of is refused before."""

    def fails(*_: object, headers: object, **__: object) -> None:
        raise ValueError(f"I do not like {headers}")

    async with opened(kubeconfig(tmp_path, 1)) as client:
        monkeypatch.setattr(client._api.rest_client.pool_manager, "request", fails)
        with pytest.raises(NoAnswer, match="ValueError") as raised:
            await client.request("PUT", "/api/x", body=b"{}")
    assert "secret" not in "".join(traceback.format_exception(raised.value))


async def test_what_refreshes_a_token_may_fail_with_anything(tmp_path: Path) -> None:
    """The libraries of clouds refresh tokens; their exceptions are unknown here, and may repeat what they sent."""

    def fails(_: object) -> None:
        raise RuntimeError("SECRET")

    async with opened(kubeconfig(tmp_path, 1)) as client:
        client._api.configuration.refresh_api_key_hook = fails
        with pytest.raises(NotSent, match="no credentials: RuntimeError") as raised:
            await client.request("PUT", "/api/x", body=b"{}")
    assert "SECRET" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("host", ["user:PASS/WORD@127.0.0.1", "user:PASSWORD@127.0.0.1", "user:PASSWORD@127.0.0.1:x"])
async def test_a_password_in_the_servers_address_is_neither_logged_nor_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, host: str
) -> None:
    caplog.set_level(logging.DEBUG, "milepost.kubernetes")
    async with opened(kubeconfig(tmp_path, 1, host=host)) as client:
        with pytest.raises(BackendError) as raised:
            await client.request("GET", "/api/x")
    assert "tests use Kubernetes at http://" in caplog.text
    assert "PASS" not in caplog.text + "".join(traceback.format_exception(raised.value))


async def test_the_namespace_is_the_addresss_or_the_contexts_or_the_default(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, 1)
    for address, namespace in (
        (KubernetesAddress(kubeconfig=file), "team"),
        (KubernetesAddress(kubeconfig=file, context="other"), "another"),
        (KubernetesAddress("mine", kubeconfig=file), "mine"),
    ):
        client = KubernetesClient(address, "tests")
        await client.open()
        assert client.namespace == namespace
        await client.close()
    async with opened(kubeconfig(tmp_path, 1, namespace=None)) as client:
        assert client.namespace == "default"


@pytest.mark.parametrize("content", [None, "", "{", "a: 1", "{}"])
async def test_a_configuration_that_cannot_be_used_is_reported(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    with pytest.raises(Misconfigured, match="cannot configure"):
        await KubernetesClient(KubernetesAddress(kubeconfig=file), "tests").open()


async def test_a_context_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="nowhere"):
        await KubernetesClient(KubernetesAddress(kubeconfig=kubeconfig(tmp_path, 1), context="nowhere"), "tests").open()


async def test_inside_of_a_cluster_the_pods_own_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test can be in a Pod; but its files are looked for, which shows the way taken. An address goes first."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    with pytest.raises(Misconfigured, match="Service token file does not exist"):
        await KubernetesClient(KubernetesAddress(), "tests").open()
    async with opened(kubeconfig(tmp_path, 1)) as client:
        assert client.namespace == "team"
