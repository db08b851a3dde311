"""Who gets through the handshake, and what becomes of those who do not."""

from __future__ import annotations

import http.client
import socket
import ssl
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import milepost
from milepost.errors import ConnectionFailed
from testbed.server import ServerProcess
from tests.support.servers.certificates import Certificates
from tests.support.servers.replicas import PROMPT
from tests.wire.support import raw
from tests.wire.support.api import problem
from tests.wire.support.in_process import in_process

STATE = bytes(range(256)) * 20_000


def test_the_sdk_by_the_file_of_the_authority(server: ServerProcess, certificates: Certificates, store: str) -> None:
    with milepost.Client(server.url, verify=certificates.ca) as client, client.session() as session:
        handles = session.store(store)
        handles.campaign()
        handles.add_and_lock("latest", STATE)
        assert handles.read("latest") == STATE


def test_who_does_not_trust_the_authority_sends_nothing(server: ServerProcess) -> None:
    with milepost.Client(server.url) as client, pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED"):
        client.status()
    server.wait_for_log("whose TLS handshake failed")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_socket_of_either_version(server: ServerProcess, certificates: Certificates, version: ssl.TLSVersion) -> None:
    context = certificates.trusting()
    context.minimum_version = context.maximum_version = version
    with raw.connected(server.url, context) as connection:
        for _ in range(2):
            connection.sendall(raw.head("GET", "/livez"))
            assert raw.answer(connection).text == "ok\n"
        connection.sendall(raw.head("GET", "/livez", {"Connection": "close"}))
        assert raw.answer(connection).text == "ok\n"
        assert connection.recv(1) == b""


def test_an_older_version_is_refused(server: ServerProcess, certificates: Certificates) -> None:
    context = certificates.trusting()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", server.port), 30.0) as plain,
        pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"),
    ):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_who_speaks_plain_http_is_told_to_speak_tls(server: ServerProcess) -> None:
    url = f"http://127.0.0.1:{server.port}"
    for body in (b"", b"x" * 5_000_000):
        answer = raw.ask(url, raw.head("POST", "/v1/sessions", {"Content-Length": str(len(body))}) + body)
        assert "use https" in problem(answer, 422, "invalid-request")["detail"]
    with milepost.Client(url, timeout=5.0) as client, pytest.raises(milepost.errors.MilepostError, match="use https"):
        client.status()


def test_noise_is_no_handshake(server: ServerProcess) -> None:
    for noise in (b"\x16\x03\x01\x00\x05hello", b"\x00" * 100_000, b"\x16", b""):
        with socket.create_connection(("127.0.0.1", server.port), 30.0) as plain:
            plain.sendall(noise)
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(4096):
                pass
    assert server.status_of("/livez") == 200


def test_what_was_changed_on_its_way_ends_the_connection(server: ServerProcess, certificates: Certificates) -> None:
    with raw.connected(server.url, certificates.trusting()) as connection:
        connection.sendall(raw.head("GET", "/livez"))
        assert raw.answer(connection).status_code == 200
        connection._plain.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)  # type: ignore[attr-defined]
        with pytest.raises((ssl.SSLError, http.client.RemoteDisconnected), match=r"(?i)alert|without response"):
            raw.answer(connection)
    assert server.status_of("/livez") == 200


def test_a_key_of_another_certificate_ends_the_start(certificates: Certificates, tmp_path: Path) -> None:
    other = Certificates(tmp_path)
    flags = ("--tls-cert", str(certificates.certificate), "--tls-key", str(other.key))
    with ServerProcess(tmp_path, *flags) as server:
        server.flags = (*flags, "--advertise", server.url.replace("http:", "https:"))
        server.start(until=None)
        server.wait_until(lambda: not server.running, "it does not end")
        said = server.logged()
    assert said.startswith("milepost-server: the key in ")
    assert "is not that of the certificate" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "a part"])
def test_a_handshake_that_does_not_end_ends_the_connection(
    certificates: Certificates, tmp_path: Path, begun: bytes
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.certificate, certificates.key)
    with in_process(tmp_path, replace(PROMPT, idle_seconds=0.2), tls=tls) as here:
        with socket.create_connection(("127.0.0.1", here.http.base_url.port or 0), 30.0) as plain:
            plain.sendall(begun)
            assert plain.recv(1024) == b""
        with raw.connected(str(here.http.base_url)) as connection:
            assert connection.recv(1024) == b""  # nor does a head that does not come


def test_connections_that_do_not_even_shake_hands_make_room(certificates: Certificates, tmp_path: Path) -> None:
    """With files for 200 connections or fewer, 600 that say nothing keep nobody out."""
    wrapper = ["prlimit", "--nofile=300:300"]
    with (
        ServerProcess(tmp_path, *certificates.flags, wrapper=wrapper, tls=certificates.trusting()) as server,
        ExitStack() as held,
    ):
        server.start()
        for _ in range(600):
            held.enter_context(socket.create_connection(("127.0.0.1", server.port), 30.0))
        with milepost.Client(server.url, verify=certificates.ca, timeout=5.0) as client:
            assert client.status().role == "leader"
        assert "Too many open files" not in server.logged()
