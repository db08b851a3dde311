"""Three replicas over three ZooKeepers and S3, and three over Kubernetes and HDFS, shared by all tests of outages; each
leaves them whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed.kubernetes.deployment import KubernetesDeployment
from testbed.replicas import Replicas
from testbed.replicated import ReplicatedTestbed
from tests.support.servers.kubernetes import require_programs

SESSION_SECONDS = 2.0


@pytest.fixture(scope="package")
def set_on_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedTestbed]:
    """The set over ZooKeeper and S3. It ends with the last of these tests: idle, it takes a tenth of a processor."""
    directory = tmp_path_factory.mktemp("deployment")
    with ReplicatedTestbed(directory, session_seconds=SESSION_SECONDS, tick_seconds=0.2) as running:
        yield running.start()


@pytest.fixture(scope="package")
def set_on_kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesDeployment]:
    """The set over Kubernetes and HDFS."""
    require_programs()
    with KubernetesDeployment(tmp_path_factory.mktemp("kubernetes-deployment")) as running:
        yield running.start()


@pytest.fixture
def deployment(set_on_zookeeper: ReplicatedTestbed) -> Iterator[ReplicatedTestbed]:
    """The whole set over ZooKeeper and S3: everything runs, and one replica leads."""
    set_on_zookeeper.mend()
    yield set_on_zookeeper
    set_on_zookeeper.mend()


@pytest.fixture
def on_kubernetes(set_on_kubernetes: KubernetesDeployment) -> Iterator[KubernetesDeployment]:
    """The whole set over Kubernetes and HDFS: everything runs, and one replica leads."""
    set_on_kubernetes.mend()
    yield set_on_kubernetes
    set_on_kubernetes.mend()


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
