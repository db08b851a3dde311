"""The real Helm, and an API server that knows the custom resources which the chart may make."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from testbed.kubernetes.api import KubernetesApi
from testbed.kubernetes.programs import ProgramAbsent, find_program
from tests.contracts.places import Services
from tests.deploy.custom_resources import definitions
from tests.deploy.helm import VALUES, Helm
from tests.deploy.objects import Objects
from tests.support.servers.kubernetes import require_programs

_BOTH_FAMILIES = "--service-cluster-ip-range=10.97.0.0/24,fd00:97::/112"


@pytest.fixture(scope="session")
def helm_program() -> str:
    """Where Helm is."""
    try:
        return find_program("helm")
    except ProgramAbsent as absent:
        pytest.skip(f"no Helm: {absent}")


@pytest.fixture(scope="session")
def helm(helm_program: str, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm without a cluster."""
    return Helm(helm_program, tmp_path_factory.mktemp("helm"))


@pytest.fixture(params=VALUES, ids=lambda path: path.name.removesuffix("-values.yaml"))
def values(request: pytest.FixtureRequest) -> Path:
    """Each file of values that comes with the chart."""
    path: Path = request.param
    return path


@pytest.fixture
def objects(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Objects:
    """A real API server with IPv4 and IPv6, and with the custom resources that the chart may make."""
    require_programs()
    if shutil.which("go") is None:
        pytest.skip("no Go, which fetches the definitions of custom resources")
    return services.get("kubernetes-for-charts", partial(_running, tmp_path_factory.mktemp("resources")))


@contextmanager
def _running(work: Path, directory: Path) -> Iterator[Objects]:
    with KubernetesApi(directory, server_flags=[_BOTH_FAMILIES]) as api:
        api.start()
        objects = Objects(api)
        objects.define(definitions(work))
        api.admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "monitoring"}})
        yield objects
