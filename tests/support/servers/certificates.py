"""Makes the certificates of an authority that only those trust who are told, and keeps them in files for a server."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Certificates:
    """The files of a server's certificate and key in ``directory``, which may be made anew, and of their authority."""

    directory: Path
    authority: trustme.CA = field(default_factory=trustme.CA)

    def __post_init__(self) -> None:
        self.authority.cert_pem.write_to_path(self.ca)
        self.renew()

    @property
    def ca(self) -> Path:
        """The file with the authority's certificate."""
        return self.directory / "ca.crt"

    @property
    def certificate(self) -> Path:
        """The file with the certificate."""
        return self.directory / "tls.crt"

    @property
    def key(self) -> Path:
        """The file with its key."""
        return self.directory / "tls.key"

    @property
    def flags(self) -> tuple[str, ...]:
        """What a server is told, to speak TLS and to believe others that have a certificate of the authority."""
        return ("--tls-cert", str(self.certificate), "--tls-key", str(self.key), "--tls-ca", str(self.ca))

    @property
    def demanding(self) -> tuple[str, ...]:
        """The same for one that wants a certificate of its clients too."""
        return (*self.flags, "--tls-client-ca", str(self.ca))

    def renew(self, authority: trustme.CA | None = None) -> bytes:
        """Put a new certificate and key in place of the old ones, and return the certificate in DER format."""
        issued = (authority or self.authority).issue_cert("127.0.0.1", "localhost")
        _replace(self.key, issued.private_key_pem.bytes())
        chain = [pem.bytes() for pem in issued.cert_chain_pems]
        _replace(self.certificate, b"".join(chain))
        return ssl.PEM_cert_to_DER_cert(chain[0].decode())

    def trusting(self, *, shown: bool = False) -> ssl.SSLContext:
        """What a client uses that trusts the authority, and perhaps shows a certificate of it."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if shown:
            self.authority.issue_cert("driver@example.org").configure_cert(context)
        return context


def _replace(file: Path, content: bytes) -> None:
    """Put a new file in the place of an old one, as those do who renew certificates."""
    new = file.with_suffix(".new")
    new.write_bytes(content)
    new.chmod(0o600)
    new.replace(file)
