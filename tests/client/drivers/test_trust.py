"""Which services a client believes: those of the authorities that it is told, by a file or a context."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

import milepost
from milepost.drivers.connections import Verify, trusting
from milepost.errors import ConnectionFailed
from tests.client.flavours import connected
from tests.client.self_signed import self_signed
from tests.support.network.scripted_server import ScriptedServer, reply

STATUS = {
    "replica": "r1",
    "role": "leader",
    "leader": None,
    "term": 1,
    "lease_remaining": 1.0,
    "version": "0",
    "pointers": "p",
    "blobs": "b",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedServer]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*self_signed(tmp_path))
    with ScriptedServer([reply(200, STATUS)] * 4, tls) as server:
        yield server


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_of_authorities(flavour: str, server: ScriptedServer, tmp_path: Path, kind: type[str | Path]) -> None:
    url = server.url.replace("http:", "https:")
    with connected(flavour, url, verify=kind(tmp_path / "mine.crt")) as client:
        assert client.status().replica == "r1"


def test_another_authority(
    flavour: str, server: ScriptedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = server.url.replace("http:", "https:")
    other, _ = self_signed(tmp_path, "other")
    trusts: list[Verify] = [True, str(other)]
    for verify in trusts:
        with (
            connected(flavour, url, verify=verify) as client,
            pytest.raises(ConnectionFailed, match=r"CERTIFICATE_VERIFY_FAILED.* --ca, MILEPOST_CA or verify="),
        ):
            client.status()
        assert caplog.text == ""
    assert server.seen == []


def test_the_authorities_of_the_environment_are_those_that_its_file_has_now(
    flavour: str, server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients share what one of them has loaded, until the file is exchanged."""
    url, mine = server.url.replace("http:", "https:"), tmp_path / "mine.crt"
    file, (other, _) = tmp_path / "authorities", self_signed(tmp_path, "other")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    for present in (mine, other, mine):
        file.write_bytes(present.read_bytes())
        for _ in range(2):
            with connected(flavour, url) as client:
                if present == mine:
                    assert client.status().replica == "r1"
                else:
                    with pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED"):
                        client.status()
    with connected(flavour, url, trust_env=False) as client, pytest.raises(ConnectionFailed, match="VERIFY_FAILED"):
        client.status()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("shown", [False, True], ids=["without one", "with one of another authority"])
def test_a_server_that_refuses_our_certificate(
    flavour: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, version: ssl.TLSVersion, shown: bool
) -> None:
    """It says so at once, of a write as of a read; in TLS 1.3 that comes behind the request."""
    certificate, key = self_signed(tmp_path)
    other, others_key = self_signed(tmp_path, "other")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate))
    tls.load_cert_chain(certificate, key)
    tls.verify_mode, tls.maximum_version = ssl.CERT_REQUIRED, version
    verify = trusting(certificate, other, others_key) if shown else trusting(certificate)

    def refuse(connection: socket.socket) -> None:
        with suppress(OSError):  # those of the ssl module among them
            tls.wrap_socket(connection.dup(), server_side=True, suppress_ragged_eofs=False)

    with answering(refuse) as url, connected(flavour, url, verify=verify) as client:
        for ask in (client.status, lambda: client.session().__enter__()):
            with pytest.raises(ConnectionFailed, match=r"(?i)alert.* --cert, MILEPOST_CERT or cert="):
                ask()
    assert caplog.text == ""


def test_a_server_that_speaks_no_tls(flavour: str, caplog: pytest.LogCaptureFixture) -> None:
    with (
        answering(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as url,
        connected(flavour, url) as client,
        pytest.raises(ConnectionFailed, match="speaks no TLS there: use http"),
    ):
        client.status()
    assert caplog.text == ""


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The https address of a server that answers each connection, and reads until its client closes it.

    One that closed with bytes unread would take back what it has said.
    """

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    answer(connection)
                    while connection.recv(65536):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = Thread(target=serve)
        serving.start()
        try:
            yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()


@pytest.mark.parametrize("content", [None, b"", b"no certificate"], ids=["none", "empty", "garbage"])
def test_a_file_that_holds_no_authority(flavour: str, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "wrong.crt"
    if content is not None:
        file.write_bytes(content)
    with (
        pytest.raises(ValueError, match=r"cannot read authorities of certificates in .*wrong\.crt: \w"),
        connected(flavour, "https://127.0.0.1:1", verify=file),
    ):
        pass


def test_a_certificate_that_cannot_be_shown(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    with pytest.raises(ValueError, match=r"cannot read the certificate and its key in .*none\.pem: No such file"):
        trusting(None, tmp_path / "none.pem")
    with pytest.raises(ValueError, match=r"cannot read the certificate and its key in .*mine\.key"):
        trusting(certificate, key)
    assert milepost.Client("http://127.0.0.1:1", verify=trusting(certificate, certificate, key)).timeout == 30.0


def test_a_certificate_is_shown(flavour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = self_signed(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    tls.load_verify_locations(certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    with ScriptedServer([reply(200, STATUS)] * 4, tls) as server:
        url = server.url.replace("http:", "https:")
        with connected(flavour, url, verify=certificate, cert=certificate, key=key, timeout=20.0) as client:
            assert client.status().replica == "r1"
        monkeypatch.setenv("MILEPOST_URL", url)
        for name, file in (("CA", certificate), ("CERT", certificate), ("KEY", key)):
            monkeypatch.setenv(f"MILEPOST_{name}", str(file))
        with connected(flavour, timeout=20.0) as client:
            assert client.status().replica == "r1"
        with connected(flavour, verify=certificate, timeout=20.0) as client:  # the rest is the environment's
            assert client.status().replica == "r1"
        with connected(flavour, verify=ssl.create_default_context(cafile=str(certificate)), timeout=20.0):
            pass  # it shows what it has itself
        seen = len(server.seen)
        monkeypatch.delenv("MILEPOST_CERT")
        monkeypatch.delenv("MILEPOST_KEY")
        with connected(flavour, timeout=0.5) as client, pytest.raises(milepost.MilepostError):
            client.status()
    assert len(server.seen) == seen == 3


def test_settings_of_a_certificate_that_do_not_go_together(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    for given, said in (
        ({"key": key}, "a key goes with a certificate"),
        ({"cert": certificate, "key": key, "verify": False}, "cert goes with verify=True or a file"),
        ({"cert": certificate, "key": key, "verify": ssl.create_default_context()}, "has a certificate of its own"),
        ({"token": "a", "token_file": certificate}, "do not go together"),
    ):
        with pytest.raises(ValueError, match=said):
            milepost.Client("https://127.0.0.1:1", **given)
