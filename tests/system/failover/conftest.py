"""Three replicas over three ZooKeepers and S3, and three over Kubernetes and HDFS, shared by all tests of outages; each
leaves them whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.kubernetes.deployment import KubernetesDeployment
from testbed.replicas import Replicas
from testbed.replicated import ReplicatedTestbed
from tests.contracts.places import Services
from tests.support.servers.kubernetes import require_programs

SESSION_SECONDS = 2.0


@contextmanager
def _on_zookeeper(directory: Path) -> Iterator[ReplicatedTestbed]:
    with ReplicatedTestbed(directory, session_seconds=SESSION_SECONDS, tick_seconds=0.2) as deployment:
        yield deployment.start()


@contextmanager
def _on_kubernetes(directory: Path) -> Iterator[KubernetesDeployment]:
    require_programs()
    with KubernetesDeployment(directory) as deployment:
        yield deployment.start()


@pytest.fixture
def deployment(services: Services) -> Iterator[ReplicatedTestbed]:
    """The whole set over ZooKeeper and S3: everything runs, and one replica leads."""
    running = services.get("deployment", _on_zookeeper)
    running.mend()
    yield running
    running.mend()


@pytest.fixture
def on_kubernetes(services: Services) -> Iterator[KubernetesDeployment]:
    """The whole set over Kubernetes and HDFS: everything runs, and one replica leads."""
    running = services.get("kubernetes-deployment", _on_kubernetes)
    running.mend()
    yield running
    running.mend()


@pytest.fixture(
    params=[
        pytest.param("deployment", id="zookeeper"),
        pytest.param("on_kubernetes", id="kubernetes", marks=pytest.mark.kubernetes),
    ]
)
def replicas(request: pytest.FixtureRequest) -> Replicas:
    """The one set, and then the other."""
    running: Replicas = request.getfixturevalue(request.param)
    return running
