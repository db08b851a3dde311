"""Runs a Kubernetes node: starts its programs in their order, and removes all of it again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from testbed.cluster.cluster import KubernetesCluster, own_environment
from testbed.commands import program
from testbed.kubernetes.keys import Keys
from testbed.node import agents, control_plane, registry
from testbed.node.leftovers import mounts
from testbed.node.mount_namespace import APART, share
from testbed.node.network import Network
from testbed.node.runtime import Runtime
from testbed.process import Process, ProcessFailed

PROGRAMS = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl",
    "containerd", "containerd-shim-runc-v2", "ctr", "coredns", "helm",
)  # fmt: skip
"""The programs that a node needs; tools/kubernetes/build builds them."""

START_SECONDS = 180.0
"""How long a start may take on a busy machine; on an idle one it takes ten seconds."""

_BULKY = ("containerd", "etcd", "kubelet", "pods")


class Node(KubernetesCluster):
    """A node that keeps its files under ``directory``. Its logs stay there after its end.

    Several nodes may run at once, each in a network of its own. A node needs root. Raises `ProgramAbsent`, or another
    `ProcessFailed`, if something that it needs is missing.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self._bin = Path(program("containerd")).parent
        self._note: registry.Note | None = None
        self._processes: list[Process] = []
        self.runtime = Runtime(self.directory / "containerd")
        self.kubeconfig = self.directory / "admin.conf"

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self, deadline: float = START_SECONDS) -> Self:
        """Start the node and wait until it takes Pods. First remove nodes whose owners were killed."""
        registry.remove_abandoned()
        self._clear()
        self._note = registry.register(self.directory)
        try:
            self._start(deadline)
        except BaseException:
            self.end()
            raise
        return self

    def end(self) -> None:
        """Kill all its programs at once, and remove what it left in the kernel and its data. Idempotent."""
        with ExitStack() as whatever_fails:
            whatever_fails.callback(self._clear)
            for process in self._processes:
                whatever_fails.callback(process.kill)
            if self._note is not None:
                registry.remove(self._note)
                self._note = None

    # -- using it --------------------------------------------------------------------------------------------------

    @property
    def network(self) -> Network:
        """The network that the node's programs and Pods are in."""
        if self._note is None:
            raise ProcessFailed("the node does not run")
        return Network(self._note.name)

    def load(self, archive: Path) -> None:
        """See `KubernetesCluster.load`."""
        self.runtime.load(archive)

    def visible(self, directory: Path) -> Path:
        """See `KubernetesCluster.visible`: its Pods see all of this machine."""
        return directory

    def process_of(self, container: str) -> int:
        """See `KubernetesCluster.process_of`."""
        return self.runtime.process_of(container)

    def _before(self, name: str) -> Sequence[str]:
        return [*self.network.enter, program(name)]

    # -- starting --------------------------------------------------------------------------------------------------

    def _start(self, deadline: float) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        share(self.directory)
        self.network.make()
        keys = Keys(self.directory / "keys", *control_plane.NAMES)
        keys.admin_kubeconfig(self.kubeconfig, control_plane.API_URL)
        self.runtime.prepare()
        containerd = self._launch("containerd", self.runtime.flags)
        self._launch("etcd", control_plane.etcd(self.directory))
        api = self._launch("kube-apiserver", control_plane.api_server(self.directory, keys))
        containerd.wait_until(self.runtime.serves, "does not serve", deadline)
        self.runtime.load_pause()
        api.wait_until(lambda: self._answers("get", "--raw=/readyz"), "is not ready", deadline)
        self._launch("kube-controller-manager", control_plane.controllers(keys, self.kubeconfig))
        self._launch("kube-scheduler", control_plane.scheduler(self.kubeconfig))
        flags = agents.kubelet(self.directory, keys, self.kubeconfig, self.runtime.socket)
        kubelet = self._launch("kubelet", flags, APART)
        self._launch("kube-proxy", agents.proxy(self.directory, self.kubeconfig))
        self._launch("coredns", agents.dns(self.directory, self.kubeconfig))
        kubelet.wait_until(lambda: self._answers("get", "node", agents.NAME), "does not join", deadline)
        self.kubectl("wait", "--for=condition=Ready", f"node/{agents.NAME}", f"--timeout={deadline:g}s")
        self._wait_for_account("default", deadline)

    def _clear(self) -> None:
        for name in _BULKY:
            if not mounts(self.directory / name):  # a mount could be a volume with files of somebody else
                shutil.rmtree(self.directory / name, ignore_errors=True)

    def _launch(self, name: str, flags: Sequence[str], before: Sequence[str] = ()) -> Process:
        process = Process(
            name,
            [*self.network.enter, *before, program(name), *flags],
            log_path=self.directory / "logs" / f"{name}.log",
            directory=self.directory,
            environment=self._environment(),
        )
        self._processes.append(process)
        return process.start()

    def _answers(self, *arguments: str) -> bool:
        try:
            self.kubectl(*arguments, "--request-timeout=5s")
        except ProcessFailed:
            return False
        return True

    def _environment(self) -> dict[str, str]:
        """Return the environment of the node's programs.

        It names neither other clusters nor proxies, which cannot be reached from the node's network. containerd finds
        its shim on the PATH.
        """
        home = self.directory / "home"
        home.mkdir(parents=True, exist_ok=True)
        path = f"{self._bin}:/usr/sbin:/sbin:{os.environ.get('PATH', '/usr/bin:/bin')}"
        return {**own_environment(), "PATH": path, "HOME": str(home), "KUBECONFIG": str(self.kubeconfig)}
