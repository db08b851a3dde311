"""Makes the certificates, keys and kubeconfigs by which the parts of a Kubernetes on this machine know each other."""

from __future__ import annotations

import json
import os
import ssl
from pathlib import Path

import trustme

ADMIN_GROUP = "system:masters"
"""Kubernetes lets members of this group do everything."""


class KeyFiles:
    """The certificates and keys of one Kubernetes, as they lie under ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = directory / "authority.crt"
        self.server, self.server_key = self._pair("server")
        self.admin, self.admin_key = self._pair("admin")
        self.token_key = directory / "tokens.key"

    def _pair(self, name: str) -> tuple[Path, Path]:
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"

    def admin_context(self) -> ssl.SSLContext:
        """Return the TLS context of an administrator's connections to the API server."""
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.admin, self.admin_key)
        return context

    def server_context(self) -> ssl.SSLContext:
        """Return the TLS context of a proxy that takes connections in the name of the API server."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.server, self.server_key)
        return context

    def trusting_context(self) -> ssl.SSLContext:
        """Return the TLS context of connections to the API server without a certificate of their own."""
        return ssl.create_default_context(cafile=str(self.authority))

    def admin_kubeconfig(self, path: Path, server: str) -> Path:
        """Write the kubeconfig of an administrator at the URL ``server``."""
        user = {"client-certificate": str(self.admin), "client-key": str(self.admin_key)}
        return self._kubeconfig(path, server, user, "default")

    def token_kubeconfig(self, path: Path, server: str, token: str, namespace: str) -> Path:
        """Write the kubeconfig of the bearer of ``token``; ``namespace`` is the default one."""
        return self._kubeconfig(path, server, {"token": token}, namespace)

    def _kubeconfig(self, path: Path, server: str, user: dict[str, str], namespace: str) -> Path:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "test", "cluster": {"server": server, "certificate-authority": str(self.authority)}},
            ],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
            "current-context": "test",
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        return _secretly(path, json.dumps(content, indent=1).encode())  # JSON is YAML, too


class Keys(KeyFiles):
    """Makes a certificate authority for one Kubernetes, and what it issues, as files under ``directory``.

    ``names`` are host names and addresses, besides 127.0.0.1, under which the API server is reached.
    """

    def __init__(self, directory: Path, *names: str) -> None:
        super().__init__(directory)
        self._authority = trustme.CA()
        directory.mkdir(parents=True, exist_ok=True)
        _secretly(self.authority, self._authority.cert_pem.bytes())
        self._leaf("server", self._authority.issue_cert("127.0.0.1", *names))
        self._leaf("tokens", self._authority.issue_cert("tokens.test"))
        self.client("admin", ADMIN_GROUP)

    def client(self, user: str, group: str) -> tuple[Path, Path]:
        """Issue a certificate for ``user``, a member of ``group``; return the files of the certificate and its key."""
        issued = self._authority.issue_cert("client.test", common_name=user, organization_name=group)
        return self._leaf(user.replace(":", "-"), issued)

    def _leaf(self, name: str, issued: trustme.LeafCert) -> tuple[Path, Path]:
        (certificate,) = issued.cert_chain_pems
        files = self._pair(name)
        for file, content in zip(files, (certificate, issued.private_key_pem), strict=True):
            _secretly(file, content.bytes())
        return files


def _secretly(path: Path, content: bytes) -> Path:
    """Write a file that nobody else may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return path
