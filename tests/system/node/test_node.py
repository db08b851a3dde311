"""The node as a part: what it starts is gone after it, also when its owner was killed."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cluster.pods import Pod
from testbed.node import kernel, registry
from testbed.node.leftovers import mounts
from testbed.node.node import Node
from testbed.node.processes import Space, processes_in, space
from testbed.node.runtime import PAUSE
from testbed.process import ProcessFailed
from testbed.server import ROOT
from tests.system.node.conftest import require_node

pytestmark = [pytest.mark.node, pytest.mark.own_node, pytest.mark.timeout(300)]

_OUTSIDE = (
    "/run/containerd/s/*",
    "/run/containerd/runc/*/*",
    "/run/milepost-nodes/*",
    "/run/netns/*",
    "/sys/fs/cgroup/k8s.io/*",
    "/sys/fs/cgroup/*/k8s.io/*",
    "/var/lib/cni/results/*",
    "/var/lib/kubelet/**/*",
    "/var/log/containers/*",
    "/var/log/pods/*",
)
"""Where a node, or the machine's own containerd and kubelet, would leave something."""

_OWNER = """
import sys, time
from pathlib import Path
from testbed.node.node import Node
from tests.system.node.test_node import run_pod
with Node(Path(sys.argv[1])).start() as node:
    run_pod(node)
    print(flush=True)
    time.sleep(600)
"""


_PLUGINS = Path("/var/lib/kubelet/device-plugins")


def run_pod(node: Node) -> None:
    """Let a Pod run, with its account's token and a directory in memory as volumes, which the kubelet mounts."""
    mounted = [{"name": "memory", "mountPath": "/memory"}]
    container = {"name": "one", "image": PAUSE.name, "imagePullPolicy": "Never", "volumeMounts": mounted}
    volumes = [{"name": "memory", "emptyDir": {"medium": "Memory"}}]
    Pod(node, "default", "one").make({"containers": [container], "volumes": volumes}).wait_ready()


def test_nothing_is_left_of_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_node()
    for name in ("HTTP_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # which leads nowhere
    before = _files_outside()
    with Node(tmp_path / "node").start() as node:
        run_pod(node)
        lived_in = _spaces(node.network.path, tmp_path)
        assert len(lived_in) >= 2
        assert len(processes_in(lived_in)) >= 10
        assert _files_outside() - before != set()
    assert processes_in(lived_in) == []
    assert mounts(tmp_path) == []
    assert _files_outside() - before == set()


def test_a_kubelet_of_the_machine_is_left_alone(tmp_path: Path) -> None:
    """In its place stands a socket like a plugin's, for the machine may be no node."""
    require_node()
    made = not _PLUGINS.exists()
    _PLUGINS.mkdir(parents=True, exist_ok=True)
    socket_file = _PLUGINS / f"milepost-test-{secrets.token_hex(4)}.sock"
    try:
        with socket.socket(socket.AF_UNIX) as listening, Node(tmp_path / "node") as node:
            listening.bind(str(socket_file))
            before = {path: path.stat().st_ino for path in _PLUGINS.iterdir()}
            node.start()
            run_pod(node)
            assert {path: path.stat().st_ino for path in _PLUGINS.iterdir()} == before
            inside = Path(f"/proc/{_first_process(node)}/mountinfo").read_text()
            assert {"/memory", "/var/run/secrets/kubernetes.io/serviceaccount"} <= {
                line.split()[4] for line in inside.splitlines() if " - tmpfs " in line
            }
    finally:
        socket_file.unlink(missing_ok=True)
        if made:
            _PLUGINS.rmdir()


def test_what_a_killed_owner_left_is_removed(tmp_path: Path) -> None:
    require_node()
    before = _files_outside()
    command = [sys.executable, "-c", _OWNER, str(tmp_path / "node")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        (note,) = _files_outside("/run/milepost-nodes/*") - before
        lived_in = _spaces(Path("/run/netns") / note.name, tmp_path)
        os.kill(owner.pid, signal.SIGKILL)
    assert len(lived_in) >= 2
    assert processes_in(lived_in) != []
    removed = registry.remove_abandoned()
    assert str(tmp_path / "node") in [note.directory for note in removed]
    assert processes_in(lived_in) == []
    assert mounts(tmp_path) == []
    assert _files_outside() - before == set()


def test_programs_end_when_something_else_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing real resists root for a while, so the removal is made to fail."""
    require_node()

    def fail(_: registry.Note) -> None:
        raise ProcessFailed("processes outlive SIGKILL")

    with Node(tmp_path / "node").start() as node:
        lived_in = _spaces(node.network.path, tmp_path)
        with monkeypatch.context() as failing:
            failing.setattr(registry, "remove", fail)
            with pytest.raises(ProcessFailed, match="outlive"):
                node.end()
        assert processes_in(lived_in) == []
        assert not (tmp_path / "node" / "etcd").exists()


def test_the_kernel_is_set_as_before_after_the_last_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the only node of its notes, whoever else runs one, and begins with settings that no kubelet makes."""
    require_node()
    monkeypatch.setattr(registry, "_NOTES", tmp_path / "notes")
    found = kernel.settings()
    begun_with = {**found, "vm/overcommit_memory": "0", "kernel/panic": "5", "kernel/panic_on_oops": "0"}
    try:
        kernel.restore(begun_with)
        with Node(tmp_path / "node").start():
            assert kernel.settings() != begun_with
        assert kernel.settings() == begun_with
    finally:
        kernel.restore(found)


def _first_process(node: Node) -> int:
    (container,) = node.get("pod", "one")["status"]["containerStatuses"]
    return node.runtime.process_of(container["containerID"].partition("://")[2])


def _spaces(network: Path, directory: Path) -> set[Space]:
    """The node's network and those of its Pods."""
    return {found for file in (network, *mounts(directory, "nsfs")) if (found := space(file)) is not None}


def _files_outside(*patterns: str) -> set[Path]:
    return {path for pattern in patterns or _OUTSIDE for path in Path("/").glob(pattern.lstrip("/"))}
