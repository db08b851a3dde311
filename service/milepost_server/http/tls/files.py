"""Read the files of certificates and keys, and say clearly what is wrong with them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from milepost_server.http.tls.expiry import expiry

_HTTP: Final = ["http/1.1"]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a replica's TLS, each in PEM format; None where there is none.

    ``certificate``, with the certificates of authorities between it and a known one, and its ``key`` show who this
    replica is. Clients have to show a certificate of an authority in ``client_ca``. Other replicas are those that have
    one of an authority in ``ca``; None: of one that is known to the public or to the system.
    """

    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    ca: Path | None = None

    @property
    def all(self) -> tuple[Path, ...]:
        """The files that there are."""
        return tuple(file for file in (self.certificate, self.key, self.client_ca, self.ca) if file is not None)


@dataclass(frozen=True, slots=True)
class Contexts:
    """What the files are read into: the context for clients, if there is a certificate, and that for other replicas.

    The certificate ends at ``expires``, a Unix time.
    """

    clients: ssl.SSLContext | None
    replicas: ssl.SSLContext
    expires: float | None = None


def read(files: TlsFiles) -> Contexts:
    """Read the files. Raises a ValueError that names the file, and never what is in it."""
    if files.certificate is None:
        return Contexts(None, _for_replicas(files))
    clients = _for_clients(files)
    try:
        expires = expiry(clients, files.certificate)
    except ssl.SSLError as error:
        raise ValueError(
            f"no client would go on with the certificate in {files.certificate}: {_describe(error)}"
        ) from error
    return Contexts(clients, _for_replicas(files), expires)


def public_authorities() -> ssl.SSLContext:
    """Return a context that trusts the authorities which are known to the public, and those of the system."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def _for_clients(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(_HTTP)
    _show(context, files)
    if files.client_ca is not None:
        _trust(context, files.client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL  # without one, health is answered and nothing else: see the gate
    return context


def _for_replicas(files: TlsFiles) -> ssl.SSLContext:
    if files.ca is None:
        context = public_authorities()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _trust(context, files.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_HTTP)
    if files.certificate is not None:
        _show(context, files)
    return context


def _show(context: ssl.SSLContext, files: TlsFiles) -> None:
    assert files.certificate is not None
    assert files.key is not None
    _readable(files.certificate, "the certificate")
    _readable(files.key, "the key")
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except _Encrypted as error:
        raise ValueError(f"the key in {files.key} is encrypted: give one without a password") from error
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ValueError(f"the key in {files.key} is not that of the certificate in {files.certificate}") from error
        detail = f"{files.certificate} and {files.key} are no certificate and key in PEM format: {_describe(error)}"
        raise ValueError(detail) from error


def _trust(context: ssl.SSLContext, file: Path) -> None:
    _readable(file, "the authorities' certificates")
    try:
        context.load_verify_locations(cafile=file)
    except ssl.SSLError as error:
        raise ValueError(f"{file} holds no certificate of an authority in PEM format: {_describe(error)}") from error


def _readable(file: Path, what: str) -> None:
    """Raise an error that names the file, and what it should hold; those of the ssl module do not."""
    try:
        file.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {what} in {file}: {error.strerror or error}") from error


def _describe(error: ssl.SSLError) -> str:
    return (error.reason or "unknown reason").replace("_", " ").lower()


class _Encrypted(Exception):
    """A key can only be read with a password."""


def _no_password() -> str:
    """Refuse to be asked: without this, OpenSSL would ask whoever sits at the terminal."""
    raise _Encrypted
