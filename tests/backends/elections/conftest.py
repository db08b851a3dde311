"""A namespace in the session's Kubernetes API for each test of an election there."""

from __future__ import annotations

import pytest

from tests.contracts.places import Services
from tests.support import kubernetes


@pytest.fixture
def site(services: Services) -> kubernetes.Site:
    """Nobody else uses it."""
    return kubernetes.site(kubernetes.shared_api(services))
