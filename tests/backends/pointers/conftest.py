"""One embedded pointer store and the file that it works on; a namespace in Kubernetes, and an outsider there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends.pointers.embedded import FILE_NAME, EmbeddedPointers
from tests.backends.pointers.kubernetes_places import Outsider
from tests.contracts.places import Services
from tests.support import kubernetes


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedPointers]:
    store = EmbeddedPointers(tmp_path, busy_timeout=0.2)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def file(store: EmbeddedPointers, tmp_path: Path) -> Path:
    del store
    return tmp_path / FILE_NAME


@pytest.fixture
def site(services: Services) -> kubernetes.Site:
    """A namespace that nobody else uses."""
    return kubernetes.site(kubernetes.shared_api(services))


@pytest.fixture
def outsider(site: kubernetes.Site) -> Outsider:
    """Who changes ConfigMaps there."""
    return Outsider(site)
