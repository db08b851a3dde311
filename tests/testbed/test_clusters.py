"""Which cluster the tests of a real cluster use, and what of them is left out of one that was given.

Nothing here asks a cluster: that is what ``make test-cluster`` is for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from testbed.cluster import given
from testbed.cluster.choice import choose_cluster, programs_needed
from testbed.cluster.given import GivenCluster, given_kubeconfig
from testbed.node import node
from testbed.process import ProcessFailed
from testbed.server import ROOT

OF_THE_NODE = "tests/system/node/test_leaders.py::test_writes_go_on_after_the_leader_and_nothing_is_lost[killed]"
OF_ANY_CLUSTER = OF_THE_NODE.replace("killed", "deleted at once")


def kubeconfig(directory: Path, server: str = "https://127.0.0.1:6443") -> Path:
    """One as kind writes it, with a second cluster that is not the current one."""
    path = directory / "kubeconfig"
    clusters = [("elsewhere", "https://cluster.example:443"), ("kind", server)]
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": address}} for name, address in clusters],
        "contexts": [{"name": f"{name}-context", "context": {"cluster": name, "user": name}} for name, _ in clusters],
        "current-context": "kind-context",
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILEPOST_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "server", ["https://127.0.0.1:1", "https://[::1]:1", "https://localhost:1", "https://0.0.0.0:1"]
)
def test_a_cluster_of_this_machine_is_taken(tmp_path: Path, server: str) -> None:
    environment = {"KUBECONFIG": str(kubeconfig(tmp_path, server))}
    chosen = choose_cluster(tmp_path / "node", environment)
    assert isinstance(chosen, GivenCluster)
    assert chosen.directory == (tmp_path / "cache" / "milepost" / "cluster").resolve()
    assert programs_needed(environment) == given.PROGRAMS


@pytest.mark.parametrize("environment", [{}, {"KUBECONFIG": ""}])
def test_without_one_a_node_is_built(environment: dict[str, str]) -> None:
    assert given_kubeconfig(environment) is None
    assert programs_needed(environment) == node.PROGRAMS


@pytest.mark.parametrize(
    "server", ["https://cluster.example:443", "https://10.0.0.1:6443", "https://127.0.0.1.example", ""]
)
def test_a_cluster_of_another_machine_is_refused(tmp_path: Path, server: str) -> None:
    with pytest.raises(ProcessFailed, match="not on this machine"):
        choose_cluster(tmp_path, {"KUBECONFIG": str(kubeconfig(tmp_path, server))})


def test_what_is_no_one_file_is_refused(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path)
    for named in (str(tmp_path / "absent"), str(tmp_path), f"{path}:{path}"):
        with pytest.raises(ProcessFailed, match="has to name one file"):
            given_kubeconfig({"KUBECONFIG": named})


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", "current-context: kind", "clusters: [", "\x00", "contexts: [{}]"]
)
def test_what_names_no_cluster_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ProcessFailed, match="names no cluster"):
        given_kubeconfig({"KUBECONFIG": str(path)})


def test_images_are_loaded_by_the_command_that_is_named(tmp_path: Path) -> None:
    archive, nodes = tmp_path / "image.tar", tmp_path / "loaded into"
    archive.write_bytes(b"images")
    nodes.mkdir()
    GivenCluster(tmp_path, tmp_path, f"cp --target-directory '{nodes}'").load(archive)
    assert (nodes / "image.tar").read_bytes() == b"images"
    with pytest.raises(ProcessFailed, match=r"false .*image\.tar ended with 1"):
        GivenCluster(tmp_path, tmp_path, "false").load(archive)


def test_without_such_a_command_nothing_begins(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="MILEPOST_LOAD_IMAGES has to be a command"):
        GivenCluster(kubeconfig(tmp_path), tmp_path, "").start()


def test_pods_see_an_empty_directory_of_the_clusters_own(tmp_path: Path) -> None:
    cluster = GivenCluster(tmp_path, tmp_path / "seen", "true")
    for _ in range(2):  # also where an earlier run left something
        shared = cluster.visible(tmp_path / "output" / "shared")
        assert shared.is_relative_to(cluster.directory)
        assert list(shared.iterdir()) == []
        (shared / "table").touch()


def test_what_needs_the_node_built_here_is_left_out_by_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "node", "tests/system/node"]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig(tmp_path))}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=280)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert f"left out, for it needs the node built here (KUBECONFIG is set): {OF_THE_NODE}" in lines
    assert OF_ANY_CLUSTER in lines
    assert OF_THE_NODE not in lines
