"""Three replicas over three ZooKeepers and S3, shared by all tests of outages; each leaves it whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parts.deployment import Deployment
from tests.contracts.places import Services

SESSION_SECONDS = 2.0


@contextmanager
def _started(directory: Path) -> Iterator[Deployment]:
    with Deployment(directory, session_seconds=SESSION_SECONDS, tick_seconds=0.2) as deployment:
        yield deployment.start()


@pytest.fixture
def deployment(services: Services) -> Iterator[Deployment]:
    """The whole set: everything runs, and one replica leads."""
    running = services.get("deployment", _started)
    running.mend()
    yield running
    running.mend()
