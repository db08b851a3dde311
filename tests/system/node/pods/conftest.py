"""One release of the chart for all jobs of these tests, whose journal is watched; each job has its own namespace."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from testbed.cluster.cluster import KubernetesCluster
from testbed.cluster.release import WITHOUT_TOKENS, Release
from tests.contracts.places import Services
from tests.system.node.pods.application import Application
from tests.system.node.pods.journal import WatchedJournal

_QUICK = {"pointers": {"kubernetes": {"leaseDuration": 5, "renewDeadline": 3, "retryPeriod": 1}}}


class Served(NamedTuple):
    """What serves the jobs."""

    release: Release
    journal: WatchedJournal


@contextmanager
def _served(node: KubernetesCluster, directory: Path) -> Iterator[Served]:
    name = node.namespace(f"test-{secrets.token_hex(4)}")
    release = Release(node, name, {**WITHOUT_TOKENS, **_QUICK})
    try:
        release.install("1")
        with WatchedJournal(node, release, directory / "journal.json") as journal:
            yield Served(release, journal)
    finally:
        node.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def served(node: KubernetesCluster, services: Services) -> Served:
    """The release, and its journal from the first day on."""
    return services.get("served-pods", partial(_served, node))


@pytest.fixture
def release(served: Served) -> Release:
    """The release alone."""
    return served.release


@pytest.fixture
def journal(served: Served) -> WatchedJournal:
    """Its journal alone."""
    return served.journal


@pytest.fixture
def application(node: KubernetesCluster, release: Release) -> Iterator[Application]:
    """A job with a name and a namespace of its own, which is not started yet."""
    name = node.namespace(f"flights-{secrets.token_hex(4)}")
    yield Application(node, name, release)
    node.kubectl("delete", "namespace", name, "--wait=false")
