"""New certificates are taken up once their files are at rest, and wrong ones are named while the old ones stay."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trustme

from milepost_server.http.tls.certificates import Certificates, TlsFiles
from tests.support.servers import certificates as made_for_tests


@pytest.fixture
def made(tmp_path: Path) -> made_for_tests.Certificates:
    return made_for_tests.Certificates(tmp_path)


@pytest.fixture
def ours(made: made_for_tests.Certificates) -> Certificates:
    return Certificates(TlsFiles(made.certificate, made.key, None, made.ca))


def test_what_has_not_changed_is_not_read_again(ours: Certificates) -> None:
    before = ours.for_clients(), ours.for_replicas()
    for _ in range(3):
        ours.watched.look()
    assert (ours.for_clients(), ours.for_replicas()) == before


def test_new_ones_are_read_once_they_are_at_rest(ours: Certificates, made: made_for_tests.Certificates) -> None:
    clients, replicas = ours.for_clients(), ours.for_replicas()
    made.renew()
    ours.watched.look()
    assert ours.for_clients() is clients
    made.renew()
    ours.watched.look()
    assert ours.for_clients() is clients
    ours.watched.look()
    assert ours.for_clients() is not clients
    assert ours.for_replicas() is not replicas


def test_wrong_ones_are_named_once_and_the_old_ones_stay(
    ours: Certificates, made: made_for_tests.Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("milepost.tls", "milepost.audit"):
        caplog.set_level(logging.INFO, name)
    clients = ours.for_clients()
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(made.key)
    for _ in range(4):
        ours.watched.look()
    assert ours.for_clients() is clients
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "tls.key is not that of the certificate" in record.getMessage()
    assert "those from before stay in use until the files change again" in record.getMessage()
    made.key.unlink()
    for _ in range(2):
        ours.watched.look()
    assert "cannot read" in caplog.records[-1].getMessage()
    made.renew()
    for _ in range(2):
        ours.watched.look()
    assert ours.for_clients() is not clients
    assert "read the new certificates" in caplog.records[2].getMessage()
    assert caplog.records[3].getMessage().startswith("act=read-certificates ")
    assert len(caplog.records) == 4


def test_a_replaced_link_is_a_change(made: made_for_tests.Certificates, tmp_path: Path) -> None:
    """As where a Secret is mounted: the files are links, and only one link above them is replaced."""
    (now := tmp_path / "now").symlink_to(made.directory)
    ours = Certificates(TlsFiles(now / "tls.crt", now / "tls.key"))
    before = ours.for_clients()
    (tmp_path / "next").mkdir()
    made_for_tests.Certificates(tmp_path / "next")
    now.unlink()
    now.symlink_to(tmp_path / "next")
    for _ in range(2):
        ours.watched.look()
    assert ours.for_clients() is not before
