"""The end of the certificate in use is read as it stands in the certificate, whatever the time is now."""

from __future__ import annotations

import ssl
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from milepost_server.http.tls.certificates import Certificates, TlsFiles, expiry, read
from tests.support.servers import certificates as made_for_tests

NOW = datetime.now(timezone.utc).replace(microsecond=0)


@pytest.fixture
def made(tmp_path: Path) -> made_for_tests.Certificates:
    return made_for_tests.Certificates(tmp_path)


def issue(made: made_for_tests.Certificates, ends: datetime) -> None:
    """Put a certificate into the place of the old one that ends then, with one of its authority behind it."""
    between = made.authority.create_child_ca()
    issued = between.issue_cert("localhost", not_before=ends - timedelta(days=90), not_after=ends)
    issued.private_key_pem.write_to_path(made.key)
    made.certificate.write_bytes(b"".join(pem.bytes() for pem in (*issued.cert_chain_pems, between.cert_pem)))


@pytest.mark.parametrize("days", [-30, 30, 120], ids=["has-ended", "serves", "has-not-begun"])
@pytest.mark.parametrize("demanded", [False, True], ids=["tls", "mtls"])
def test_it_is_the_first_certificates(made: made_for_tests.Certificates, days: int, demanded: bool) -> None:
    ends = NOW + timedelta(days=days)
    issue(made, ends)
    files = TlsFiles(made.certificate, made.key, made.ca if demanded else None, made.ca)
    assert read(files).expires == ends.timestamp()


def test_it_follows_a_renewal_and_is_none_without_a_certificate(made: made_for_tests.Certificates) -> None:
    issue(made, NOW + timedelta(days=1))
    ours = Certificates(TlsFiles(made.certificate, made.key, None, made.ca))
    assert ours.expires == (NOW + timedelta(days=1)).timestamp()
    issue(made, NOW + timedelta(days=90))
    ours.watched.look()
    ours.watched.look()
    assert ours.expires == (NOW + timedelta(days=90)).timestamp()
    assert Certificates(TlsFiles(ca=made.ca)).expires is None


def test_tls_1_2_will_do(made: made_for_tests.Certificates) -> None:
    contexts = read(TlsFiles(made.certificate, made.key))
    assert contexts.clients is not None
    contexts.clients.maximum_version = ssl.TLSVersion.TLSv1_2
    assert expiry(contexts.clients, made.certificate) == contexts.expires


def test_a_certificate_that_is_none_of_a_server_is_refused(made: made_for_tests.Certificates) -> None:
    issue_for_clients(made)
    with pytest.raises(ValueError, match=r"no client would go on with the certificate in .*tls\.crt"):
        read(TlsFiles(made.certificate, made.key))


def issue_for_clients(made: made_for_tests.Certificates) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "driver")])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    built = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(NOW - timedelta(days=1)).not_valid_after(NOW + timedelta(days=1))
        .add_extension(usage, critical=False).sign(key, hashes.SHA256())
    )  # fmt: skip
    made.certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
