"""Files that cannot be used are named, with what is wrong with them, and nothing of what is in them."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from milepost_server.http.tls.certificates import TlsFiles, read
from tests.support.servers.certificates import Certificates


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
def files(made: Certificates) -> TlsFiles:
    return TlsFiles(made.certificate, made.key, made.ca, made.ca)


def test_what_is_right(files: TlsFiles) -> None:
    contexts = read(files)
    assert contexts.clients is not None
    assert contexts.clients.minimum_version == ssl.TLSVersion.TLSv1_2
    assert contexts.clients.verify_mode == ssl.CERT_OPTIONAL
    assert (contexts.replicas.verify_mode, contexts.replicas.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(contexts.replicas.get_ca_certs()) == 1
    assert len(read(TlsFiles()).replicas.get_ca_certs()) > 50


def encrypt(made: Certificates) -> str:
    command = ["openssl", "pkcs8", "-topk8", "-in", str(made.key), "-passout", "pass:public"]
    made.key.write_bytes(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    return r"tls\.key is encrypted"


def swap(made: Certificates) -> str:
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(made.key)
    return r"tls\.key is not that of the certificate in .*tls\.crt"


def lose_the_key(made: Certificates) -> str:
    made.key.unlink()
    return r"cannot read the key in .*tls\.key: No such file"


def lose_the_certificate(made: Certificates) -> str:
    made.certificate.unlink()
    return r"cannot read the certificate in .*tls\.crt: No such file"


def put_a_directory(made: Certificates) -> str:
    made.key.unlink()
    made.key.mkdir()
    return r"cannot read the key in .*tls\.key: Is a directory"


def put_the_key_first(made: Certificates) -> str:
    made.certificate.write_bytes(made.key.read_bytes())
    return r"tls\.crt and .*tls\.key are no certificate and key in PEM format"


def empty_the_authorities(made: Certificates) -> str:
    made.ca.write_text("")
    return r"ca\.crt holds no certificate of an authority"


WRONG = [
    encrypt,
    swap,
    lose_the_key,
    lose_the_certificate,
    put_a_directory,
    put_the_key_first,
    empty_the_authorities,
]


@pytest.mark.parametrize("spoil", WRONG)
def test_what_is_wrong(made: Certificates, files: TlsFiles, spoil: Callable[[Certificates], str]) -> None:
    secret = made.key.read_text().splitlines()[1]
    said = spoil(made)
    with pytest.raises(ValueError, match=said) as raised:
        read(files)
    assert secret not in str(raised.value)


def test_the_authorities_of_replicas_alone_may_be_wrong(files: TlsFiles, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read the authorities' certificates in .*other\.crt"):
        read(replace(files, ca=tmp_path / "other.crt"))
