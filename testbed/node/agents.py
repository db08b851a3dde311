"""Configures the programs that make a machine a node.

kubelet runs Pods, kube-proxy leads from Services to Pods, and CoreDNS knows the names of Services.

Each function writes a configuration below ``directory`` and returns the flags that name it.
"""

from __future__ import annotations

import json
from pathlib import Path

from testbed.kubernetes.keys import Keys
from testbed.node.network import NODE, PODS

NAME = "node-1"


def kubelet(directory: Path, keys: Keys, kubeconfig: Path, containers: Path) -> list[str]:
    """Configure kubelet. ``containers`` is the socket of containerd."""
    home = directory / "kubelet"
    names = directory / "resolv.conf"
    names.write_text("")  # Pods ask the cluster's DNS alone, and search no domain of the machine
    configuration = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": f"unix://{containers}",
        "authentication": {
            "anonymous": {"enabled": False},
            "x509": {"clientCAFile": str(keys.authority)},
            "webhook": {"enabled": False},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "failSwapOn": False,
        "clusterDNS": [NODE],
        "clusterDomain": "cluster.local",
        "resolvConf": str(names),
        "podLogsDir": str(directory / "pods"),
        "volumePluginDir": str(home / "volume-plugins"),
        "imageGCHighThresholdPercent": 100,  # images come from here, and nobody could fetch one again
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    }
    return [
        f"--config={_written(directory / 'kubelet.json', configuration)}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={home}",
        f"--cert-dir={directory / 'generated'}",
        f"--hostname-override={NAME}",
        f"--node-ip={NODE}",
    ]


def proxy(directory: Path, kubeconfig: Path) -> list[str]:
    """Configure kube-proxy."""
    configuration = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": NAME,
        "clusterCIDR": PODS,
        "bindAddress": "127.0.0.1",
        "oomScoreAdj": 0,  # a sandbox may not lower it
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
    }
    return [f"--config={_written(directory / 'kube-proxy.json', configuration)}"]


def dns(directory: Path, kubeconfig: Path) -> list[str]:
    """Configure CoreDNS."""
    path = directory / "Corefile"
    zone = f"bind {NODE}\n    errors\n    kubernetes cluster.local {{\n        kubeconfig {kubeconfig} test\n    }}"
    path.write_text(f"cluster.local:53 {{\n    {zone}\n}}\n")
    return ["-conf", str(path)]


def _written(path: Path, configuration: object) -> Path:
    path.write_text(json.dumps(configuration, indent=1))  # JSON is YAML, too
    return path
