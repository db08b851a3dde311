"""A namespace in the run's Kubernetes API for each test, and an outsider there."""

from __future__ import annotations

import pytest

from tests.backends.kubernetes.places import Outsider
from tests.contracts.places import Services
from tests.support.servers import kubernetes


@pytest.fixture
def site(services: Services) -> kubernetes.Site:
    """A namespace that nobody else uses."""
    return kubernetes.site(kubernetes.shared_api(services))


@pytest.fixture
def outsider(site: kubernetes.Site) -> Outsider:
    """Who changes ConfigMaps there."""
    return Outsider(site)
