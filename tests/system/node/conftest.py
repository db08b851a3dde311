"""One real cluster for the whole session, with both images and HDFS on it: that of KUBECONFIG, or a node built here.

Where there can be none, one reason says why. What looks inside the node is left out, by name, where a cluster is given.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.cluster.choice import choose_cluster, programs_needed
from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.given import KUBECONFIG
from testbed.cluster.release import Release
from testbed.kubernetes.programs import ProgramAbsent, find_program
from testbed.node.network import Network
from testbed.node.node import PROGRAMS
from testbed.node.preload import furnish
from testbed.node.processes import kill_all
from tests.contracts.places import Services

TAGS = ("1", "2")
"""The images of the server: two, so that there is one to go on to."""

_LEFT_OUT = pytest.StashKey[list[str]]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what looks inside the node, of all that is chosen already, where a cluster is given."""
    if not os.environ.get(KUBECONFIG):
        return
    left_out = [item for item in items if item.get_closest_marker("own_node")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    config.stash[_LEFT_OUT] = [item.nodeid for item in left_out]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Name what was left out."""
    left_out = config.stash.get(_LEFT_OUT, [])
    return [f"left out, for it needs the node built here ({KUBECONFIG} is set): {name}" for name in left_out]


def require_node(programs: Sequence[str] = PROGRAMS) -> None:
    """Skip where no node can be started, nor images made."""
    if os.geteuid() != 0:
        pytest.skip("no Kubernetes node, and no images: that takes root")
    try:
        for program in programs:
            find_program(program)
    except ProgramAbsent as absent:
        pytest.skip(f"no Kubernetes node: {absent}")


@contextmanager
def _started(directory: Path) -> Iterator[KubernetesCluster]:
    with choose_cluster(directory) as cluster:
        furnish(cluster.start(), *TAGS)
        yield cluster


@pytest.fixture
def node(services: Services) -> KubernetesCluster:
    """The session's cluster. It is there to be used, not to be stopped."""
    require_node(programs_needed())
    return services.get("node", _started)


@pytest.fixture
def namespace(node: KubernetesCluster) -> Iterator[str]:
    """One of its own for each test; it goes with all that is in it."""
    name = node.namespace(f"test-{secrets.token_hex(4)}")
    yield name
    node.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def release(node: KubernetesCluster, namespace: str) -> Release:
    """A release that is not installed yet."""
    return Release(node, namespace)


@pytest.fixture
def network() -> Iterator[Network]:
    """The network of a node, without a node."""
    if os.geteuid() != 0:
        pytest.skip("to make a network takes root")
    made = Network(f"milepost-test-{secrets.token_hex(4)}")
    made.make()
    yield made
    kill_all(lambda: [made.path])
    made.remove()
