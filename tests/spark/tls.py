"""A service over TLS, of an authority that only those trust who are told, and with tokens."""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from pathlib import Path

import trustme
from anyio.from_thread import start_blocking_portal

from testbed.server import ServerProcess
from tests.spark.jobs import wait_until
from tests.support.network.link import link
from tests.support.servers.certificates import Certificates

Serving = Callable[..., AbstractContextManager[ServerProcess]]
TOKEN = "the-token-of-drivers"


def token_flags(directory: Path) -> tuple[str, ...]:
    """The flags of a service that wants `TOKEN` of each client, which then may do no more than write its own job."""
    file = directory / "tokens"
    file.write_text(f"driver sha256:{sha256(TOKEN.encode()).hexdigest()} writer=job-*\n")
    file.chmod(0o600)
    return ("--token-file", str(file))


def trust_store(authority: trustme.CA, path: Path) -> dict[str, str]:
    """The system properties of a JVM that trusts the authority."""
    with authority.cert_pem.tempfile() as certificate:
        keytool = f"{os.environ['JAVA_HOME']}/bin/keytool" if "JAVA_HOME" in os.environ else "keytool"
        command = [keytool, "-importcert", "-noprompt", "-alias", "test", "-file", certificate]
        command += ["-keystore", str(path), "-storetype", "PKCS12", "-storepass", "public"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    settings = {"trustStore": str(path), "trustStoreType": "PKCS12", "trustStorePassword": "public"}
    return {f"javax.net.ssl.{name}": value for name, value in settings.items()}


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """What the SDK is told, to trust the authority, and to show a certificate of it where one is wanted."""
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    authority.issue_cert("driver@example.org").configure_cert(ours)
    return ours


@contextmanager
def behind_tls(authority: trustme.CA, directory: Path, *flags: str) -> Iterator[ServerProcess]:
    """A service behind a sidecar that ends TLS, at the ``advertised`` address of the first flag."""
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(theirs)
    with (
        ServerProcess(directory) as server,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(link(server.port, theirs)) as sidecar,
    ):
        server.flags = ("--advertise", f"https://{sidecar.address}", *flags)
        yield server.start()
        wait_until(lambda: not sidecar._conversations)  # Java keeps its connections for some seconds


@contextmanager
def speaking_tls(authority: trustme.CA, directory: Path, *flags: str) -> Iterator[ServerProcess]:
    """A service that ends TLS itself, at the ``advertised`` address of the first flag."""
    made = Certificates(directory, authority)
    with ServerProcess(directory, *made.flags, tls=made.trusting()) as server:
        server.flags = ("--advertise", server.url, *made.flags, *flags)
        yield server.start()


@contextmanager
def wanting_certificates(authority: trustme.CA, directory: Path, *flags: str) -> Iterator[ServerProcess]:
    """The same, which wants certificates of its clients."""
    with speaking_tls(authority, directory, *flags, "--tls-client-ca", str(directory / "ca.crt")) as server:
        yield server


def address(server: ServerProcess) -> str:
    """Where such a service is reached."""
    return server.flags[1]
