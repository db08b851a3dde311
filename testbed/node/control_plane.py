"""Gives the flags of the programs that decide in a cluster: etcd, the API server, the controllers and the scheduler."""

from __future__ import annotations

from pathlib import Path

from testbed.kubernetes.keys import Keys
from testbed.node.network import API, NODE, SERVICES

API_URL = f"https://{NODE}:6443"
NAMES = (NODE, API, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
"""The names and addresses under which the API server is reached inside of the node; its certificate holds them."""

_CLIENTS, _PEERS = "http://127.0.0.1:2379", "http://127.0.0.1:2380"


def etcd(directory: Path) -> list[str]:
    """Return the flags of etcd."""
    return [
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={_CLIENTS}",
        f"--advertise-client-urls={_CLIENTS}",
        f"--listen-peer-urls={_PEERS}",
        f"--initial-advertise-peer-urls={_PEERS}",
        f"--initial-cluster=default={_PEERS}",
        "--log-level=warn",
    ]


def api_server(directory: Path, keys: Keys) -> list[str]:
    """Return the flags of kube-apiserver."""
    return [
        f"--etcd-servers={_CLIENTS}",
        "--bind-address=0.0.0.0",
        f"--advertise-address={NODE}",
        "--secure-port=6443",
        f"--cert-dir={directory / 'generated'}",
        f"--tls-cert-file={keys.server}",
        f"--tls-private-key-file={keys.server_key}",
        f"--client-ca-file={keys.authority}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={keys.admin}",
        f"--kubelet-client-key={keys.admin_key}",
        f"--service-account-key-file={keys.token_key}",
        f"--service-account-signing-key-file={keys.token_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICES}",
        "--authorization-mode=Node,RBAC",
        "--profiling=false",
    ]


def controllers(keys: Keys, kubeconfig: Path) -> list[str]:
    """Return the flags of kube-controller-manager."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={keys.token_key}",
        f"--root-ca-file={keys.authority}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--profiling=false",
    ]


def scheduler(kubeconfig: Path) -> list[str]:
    """Return the flags of kube-scheduler."""
    return [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false"]
