"""Runs a Kubernetes API on this machine: etcd and kube-apiserver, without a node.

Objects can be made, read, changed and watched as in any cluster, under the same rules of access; but no controller acts
on them, so a Pod never runs, and a namespace that is deleted never goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from testbed.kubernetes.admin import NEEDED, Admin, Rules
from testbed.kubernetes.keys import KeyFiles, Keys
from testbed.kubernetes.programs import find_program
from testbed.ports import Port
from testbed.process import DEADLINE_SECONDS, Process

_ISSUER = "https://kubernetes.default.svc"


class KubernetesEndpoint:
    """An API that runs, for those who do not stop it. ``directory`` has its keys; ``port`` is its server's."""

    def __init__(self, directory: Path, port: int, keys: KeyFiles | None = None) -> None:
        self.directory = directory
        self.port = port
        self.url = f"https://127.0.0.1:{port}"
        self.keys = keys or KeyFiles(directory / "keys")
        self.admin = Admin(port, self.keys.admin_context())
        self.admin_kubeconfig = directory / "admin.conf"

    def namespace(self, prefix: str = "test") -> str:
        """Make a namespace that nobody else uses, and return its name."""
        return self.admin.namespace(prefix)

    def service_account(
        self, namespace: str, rules: Rules = NEEDED, *, name: str = "milepost", server: str | None = None
    ) -> Path:
        """Make an account that may do what the ``rules`` say, in its namespace; return the path of its kubeconfig.

        ``server`` is the URL of a proxy in front of the API server, if there is one.
        """
        token = self.admin.service_account(namespace, rules, name)
        path = self.directory / "accounts" / f"{namespace}-{name}.conf"
        return self.keys.token_kubeconfig(path, server or self.url, token, namespace)


class KubernetesApi(KubernetesEndpoint):
    """One etcd, and one API server that stores its objects there; both have their files under ``directory``.

    Data and ports stay the same from one start to the next. The processes `etcd` and `server` may each be killed,
    paused, resumed and started alone. ``etcd_flags`` and ``server_flags`` are added to their commands. Making this
    object raises `ProgramAbsent` if the programs are missing.
    """

    def __init__(
        self,
        directory: Path,
        *,
        etcd_flags: Sequence[str] = (),
        server_flags: Sequence[str] = (),
        detached: bool = False,
    ) -> None:
        self._ports = {name: Port() for name in ("etcd", "etcd peers", "server")}
        super().__init__(directory, self._ports["server"].number, Keys(directory / "keys"))
        self.keys.admin_kubeconfig(self.admin_kubeconfig, self.url)
        self.etcd = Process(
            "etcd",
            [find_program("etcd"), *self._for_etcd(), *etcd_flags],
            log_path=directory / "etcd.log",
            detached=detached,
        )
        self.server = Process(
            "kube-apiserver",
            [find_program("kube-apiserver"), *self._for_server(), *server_flags],
            log_path=directory / "kube-apiserver.log",
            detached=detached,
        )

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self, deadline: float = DEADLINE_SECONDS) -> KubernetesApi:
        """Start what does not run, and wait until the API is ready. Raises `ProcessFailed`."""
        if not self.etcd.running:
            self.etcd.start(self._ports["etcd"].answers, deadline)
        if not self.server.running:
            self.server.start(self.ready, deadline)
        self.server.wait_until(self.ready, "is not ready", deadline)
        return self

    def ready(self) -> bool:
        """Return whether the API serves, for which etcd has to serve as well."""
        return self.admin.answers("/readyz")

    def end(self) -> None:
        """Kill both, the API server first, which lingers without etcd. Idempotent."""
        self.server.kill()
        self.etcd.kill()

    def __enter__(self) -> KubernetesApi:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    # -- its commands --------------------------------------------------------------------------------------------------

    def _for_etcd(self) -> list[str]:
        clients, peers = (f"http://{self._ports[name].address}" for name in ("etcd", "etcd peers"))
        return [
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--log-level=warn",
        ]

    def _for_server(self) -> list[str]:
        keys = self.keys
        return [
            f"--etcd-servers=http://{self._ports['etcd'].address}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.directory / 'generated'}",
            f"--tls-cert-file={keys.server}",
            f"--tls-private-key-file={keys.server_key}",
            f"--client-ca-file={keys.authority}",
            f"--service-account-key-file={keys.token_key}",
            f"--service-account-signing-key-file={keys.token_key}",
            f"--service-account-issuer={_ISSUER}",
            "--service-cluster-ip-range=10.96.0.0/24",
            "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none",  # there is nothing in the cluster that has to find it
            "--disable-admission-plugins=ServiceAccount",  # it waits for an account that a controller would make
            "--allow-privileged=true",
            "--profiling=false",
            "--v=1",
        ]
