"""Loads the certificates of a replica from files, and loads changed files again. Each error names its file."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import httpx

from milepost_server.basics.watched_files import WatchedFiles
from milepost_server.http.access import audit

log = logging.getLogger("milepost.tls")

_HTTP: Final = ["http/1.1"]

_NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME: accept a certificate that has expired or is not valid yet."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a replica's TLS, each in PEM format; None for a file that is not configured.

    ``certificate`` and its ``key`` prove the identity of this replica; the file ``certificate`` also has the
    intermediate certificates. Clients must show a certificate of an authority in ``client_ca``. This replica accepts
    another replica with a certificate of an authority in ``ca``; if ``ca`` is None, of a public authority or one that
    the system trusts.
    """

    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    ca: Path | None = None

    @property
    def all(self) -> tuple[Path, ...]:
        """The files that are configured."""
        return tuple(file for file in (self.certificate, self.key, self.client_ca, self.ca) if file is not None)


@dataclass(frozen=True, slots=True)
class _Contexts:
    """The TLS contexts made from a replica's files: ``clients`` for connections of clients, None without a certificate,
    and ``replicas`` for connections to other replicas.

    The certificate expires at ``expires``, a Unix time.
    """

    clients: ssl.SSLContext | None
    replicas: ssl.SSLContext
    expires: float | None = None


def read(files: TlsFiles) -> _Contexts:
    """Read the files into TLS contexts. Raises a ValueError that names the bad file, and never quotes its content."""
    if files.certificate is None:
        return _Contexts(None, _for_replicas(files))
    clients = _for_clients(files)
    try:
        expires = expiry(clients, files.certificate)
    except ssl.SSLError as error:
        raise ValueError(
            f"no client would go on with the certificate in {files.certificate}: {_describe(error)}"
        ) from error
    return _Contexts(clients, _for_replicas(files), expires)


def public_authorities() -> ssl.SSLContext:
    """Return a TLS context for connections to other replicas, which trusts public authorities and those that the system
    trusts.
    """
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
        # a client certificate is optional for TLS, since health is answered without one; `Gate` refuses other requests
        context.verify_mode = ssl.CERT_OPTIONAL
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
    """Raise a ValueError with the name and purpose of the file if it cannot be read. The errors of the ssl module would
    not name the file.
    """
    try:
        file.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {what} in {file}: {error.strerror or error}") from error


def _describe(error: ssl.SSLError) -> str:
    return (error.reason or "unknown reason").replace("_", " ").lower()


class _Encrypted(Exception):
    """Raised when the private key in a file is encrypted, so that it can be read only with a password."""


def _no_password() -> str:
    """Raise `_Encrypted` when OpenSSL needs a password for a key. Without this callback, OpenSSL would ask at the
    terminal.
    """
    raise _Encrypted


def expiry(server: ssl.SSLContext, certificate: Path) -> float:
    """Return the Unix time at which the certificate that ``server`` presents expires; this is the first certificate in
    the file.

    Raises `ssl.SSLError` if a client would refuse the certificate for any reason but its dates.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.load_verify_locations(cafile=certificate)
    client.verify_flags = ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME)
    towards_server, towards_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(towards_client, towards_server)
    answering = server.wrap_bio(towards_server, towards_client, server_side=True)
    # a handshake takes five steps in TLS 1.2, and three in TLS 1.3
    for side in (asking, answering, asking, answering, asking):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    shown = asking.getpeercert()
    assert shown is not None
    return float(ssl.cert_time_to_seconds(str(shown["notAfter"])))


class Certificates:
    """The TLS certificates that this replica uses. A connection keeps the certificate with which it began.

    If changed files cannot be used, the error is logged, and the old certificates stay in use.
    """

    def __init__(self, files: TlsFiles) -> None:
        """Read the files. Raises ValueError if they cannot be used."""
        self._files = files
        self.watched = WatchedFiles(files.all, partial(read, files), "certificates", log, self._changed)

    @property
    def serve(self) -> bool:
        """Whether this replica has a certificate, and so speaks TLS to its clients."""
        return self._files.certificate is not None

    @property
    def demanded(self) -> bool:
        """Whether clients have to show a certificate."""
        return self._files.client_ca is not None

    @property
    def expires(self) -> float | None:
        """The Unix time at which the certificate in use expires; None if there is no certificate."""
        return self.watched.now.expires

    def for_clients(self) -> ssl.SSLContext:
        """Return the TLS context for the next connection of a client."""
        contexts = self.watched.now
        assert contexts.clients is not None
        return contexts.clients

    def for_replicas(self) -> ssl.SSLContext:
        """Return the TLS context for the next connection to another replica."""
        return self.watched.now.replicas

    def _changed(self, _old: _Contexts, _new: _Contexts) -> None:
        files = ", ".join(map(str, self._files.all))
        log.info("read the new certificates in %s; the next connections use them", files)
        audit.note("read-certificates", files)
