"""New certificates are taken up under load, without a request that fails; wrong ones change nothing."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from testbed.server import ServerProcess
from tests.support.servers.certificates import Certificates
from tests.wire.support.api import until
from tests.wire.support.under_load import Load
from tests.wire.tls.conftest import leading

pytestmark = pytest.mark.later


@pytest.fixture
def own(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
def renewed(own: Certificates, tmp_path: Path) -> Iterator[ServerProcess]:
    with leading(own, tmp_path, *own.flags) as server:
        yield server


def shown(server: ServerProcess) -> bytes:
    """The certificate that a new connection is shown."""
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", server.port), timeout=30.0))


def shows(server: ServerProcess, certificate: bytes) -> bool:
    return shown(server) == certificate


def test_a_renewal_under_load(renewed: ServerProcess, own: Certificates) -> None:
    with ExitStack() as running:
        loads = [running.enter_context(Load(renewed, own, f"load-{number}")) for number in range(2)]
        seen = {shown(renewed)}
        for _ in range(2):
            new = own.renew()
            until(partial(shows, renewed, new), "the new certificate is shown")
            seen.add(new)
        asked = [load.asked for load in loads]
        until(lambda: all(load.asked > was + 20 for load, was in zip(loads, asked, strict=True)), "it goes on")
    assert len(seen) == 3
    assert [load.failed for load in loads] == [[], []]
    assert sum(load.asked for load in loads) > 100


def test_a_broken_renewal_keeps_the_old_one(renewed: ServerProcess, own: Certificates) -> None:
    before = shown(renewed)
    own.certificate.write_text("-----BEGIN CERTIFICATE-----\nbroken\n")
    renewed.wait_for_log("the new certificates cannot be used")
    assert shown(renewed) == before
    (line,) = [line for line in renewed.logged().splitlines() if "cannot be used" in line]
    assert "ERROR milepost.tls" in line
    assert str(own.certificate) in line
    new = own.renew()
    renewed.wait_for_log("read the new certificates")
    assert shown(renewed) == new
