"""How requests leave: by a proxy, by the environment's proxies, or by a transport of the caller's."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import milepost
from milepost.aio import AsyncClient
from tests.client.flavours import connected
from tests.support.network.scripted_server import ScriptedServer, reply, stall

STATUS = {
    "replica": "r1",
    "role": "leader",
    "leader": "http://service.test:7070",
    "term": 3,
    "version": "0.1.0",
    "pointers": "embedded",
    "blobs": "file",
}
FAR = "http://service.test:7070"
"""A name that only a proxy could know."""


def answered(request: httpx.Request) -> httpx.Response:
    """What the service answers to a look at its status."""
    assert request.url.path == "/v1/status"
    return httpx.Response(200, headers={"Milepost-Term": "3"}, content=json.dumps(STATUS).encode())


def test_a_proxy_that_is_given(flavour: str) -> None:
    with (
        ScriptedServer([reply(200, STATUS)]) as proxy,
        connected(flavour, FAR, proxy=proxy.url.replace("//", "//user:very-secret@"), timeout=20.0) as client,
    ):
        assert client.status().replica == "r1"
        assert "very-secret" not in repr(client)
    assert [seen.path for seen in proxy.seen] == [f"{FAR}/v1/status"]
    assert proxy.seen[0].headers["proxy-authorization"].startswith("Basic ")


@pytest.mark.parametrize("trust_env", [True, False])
def test_the_proxies_of_the_environment(flavour: str, trust_env: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer([reply(200, STATUS)]) as proxy, ScriptedServer([reply(200, STATUS)]) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("http_proxy", raising=False)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "")
        with connected(flavour, server.url, trust_env=trust_env, timeout=20.0) as client:
            client.status()
    assert (len(proxy.seen), len(server.seen)) == ((1, 0) if trust_env else (0, 1))


def test_a_proxy_that_never_answers_does_not_hold_a_call(flavour: str) -> None:
    with ScriptedServer([stall()] * 50) as proxy:
        with (
            connected(flavour, FAR, proxy=proxy.url, timeout=600.0) as client,
            pytest.raises((milepost.DeadlineExceeded, milepost.ConnectionFailed)),
        ):
            client.status(timeout=0.5)
        proxy.cut()


def test_a_transport_for_tests_of_ones_own_code(flavour: str) -> None:
    with connected(flavour, FAR, transport=httpx.MockTransport(answered)) as client:
        assert client.status().leader == FAR


def test_a_transport_that_fails_is_a_connection_that_failed(flavour: str) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody there", request=request)

    with (
        connected(flavour, FAR, transport=httpx.MockTransport(refuse), timeout=1.0) as client,
        pytest.raises(milepost.ConnectionFailed, match="nobody there"),
    ):
        client.status()


def test_a_transport_of_httpx_keeps_to_the_deadline(flavour: str) -> None:
    """One that is made by the caller still gets the SDK's own connections, which look at the clock."""
    kind: type[Any] = httpx.HTTPTransport if flavour == "blocking" else httpx.AsyncHTTPTransport
    with ScriptedServer([stall()] * 50) as server:
        with (
            connected(flavour, server.url, transport=kind(), timeout=600.0) as client,
            pytest.raises((milepost.DeadlineExceeded, milepost.ConnectionFailed)),
        ):
            client.status(timeout=0.5)
        server.cut()


@pytest.mark.anyio
async def test_a_write_that_a_transport_does_not_answer_is_in_doubt() -> None:
    """Nobody knows what such a transport has done with the request."""
    session = {"session": "s1", "ttl": 60, "holder": "h"}

    async def hang(request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and request.url.path == "/v1/sessions":
            session["session"] = json.loads(request.content)["session"]
            return httpx.Response(201, headers={"Milepost-Term": "3"}, json=session)
        if request.method == "POST" and not request.url.path.endswith("/keepalive"):
            await asyncio.sleep(600.0)
        return httpx.Response(204, headers={"Milepost-Term": "3"})

    async with (
        AsyncClient(FAR, transport=httpx.MockTransport(hang), timeout=600.0) as client,
        client.session(holder="h", ttl=60) as begun,
    ):
        with pytest.raises(milepost.OutcomeUnknown):
            await begun.store("s").add_and_lock("h", b"state", timeout=0.5)


def test_a_body_without_an_end_does_not_hold_a_call(flavour: str) -> None:
    class Endless(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            while True:
                time.sleep(0.01)
                yield b" "

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                await asyncio.sleep(0.01)
                yield b" "

    def begin(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"Milepost-Term": "3"}, stream=Endless())

    with (
        connected(flavour, FAR, transport=httpx.MockTransport(begin), timeout=600.0) as client,
        pytest.raises((milepost.DeadlineExceeded, milepost.ConnectionFailed)),
    ):
        client.status(timeout=0.5)


def test_a_unix_socket(flavour: str, tmp_path: Path) -> None:
    """As of a sidecar: httpx has it in its own transport."""
    path = str(tmp_path / "socket")
    kind: type[Any] = httpx.HTTPTransport if flavour == "blocking" else httpx.AsyncHTTPTransport
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(1)
        listening.settimeout(30.0)

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(30.0)
                connection.recv(65536)
                body = json.dumps(STATUS).encode()
                head = f"HTTP/1.1 200 OK\r\nMilepost-Term: 3\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)

        thread = threading.Thread(target=serve)
        thread.start()
        with connected(flavour, "http://localhost", transport=kind(uds=path), timeout=20.0) as client:
            assert client.status().replica == "r1"
        thread.join(30.0)


@pytest.mark.parametrize("other", [{"proxy": "http://proxy.test:3128"}, {"verify": False}])
@pytest.mark.parametrize("client_class", [milepost.Client, AsyncClient])
def test_settings_that_a_transport_would_not_follow_are_refused(client_class: type[Any], other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a transport of your own"):
        client_class(FAR, transport=httpx.MockTransport(answered), **other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_transport_stays_with_its_process() -> None:
    client = milepost.Client(FAR, transport=httpx.MockTransport(answered))
    client.status()
    child = os.fork()
    if child == 0:
        try:
            client.status()
        except milepost.Closed:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    client.close()
