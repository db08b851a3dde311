"""Fixtures of the contract suites: a fresh place for each test and each backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost_backends.contract import BlobStore, Election, PointerStore
from tests.contracts.factories import BLOBS, ELECTIONS, POINTERS
from tests.contracts.places import Backend, Place, Services, cases


@pytest.fixture(params=cases(POINTERS))
def pointers(request: pytest.FixtureRequest, tmp_path: Path, services: Services) -> Place[PointerStore]:
    """A fresh place for pointers."""
    backend: Backend[PointerStore] = request.param
    return Place(backend, backend.fresh(tmp_path, services))


@pytest.fixture(params=cases(ELECTIONS))
def elections(request: pytest.FixtureRequest, tmp_path: Path, services: Services) -> Place[Election]:
    """A fresh place for an election."""
    backend: Backend[Election] = request.param
    return Place(backend, backend.fresh(tmp_path, services))


@pytest.fixture(params=cases(BLOBS))
def blobs(request: pytest.FixtureRequest, tmp_path: Path, services: Services) -> Place[BlobStore]:
    """A fresh place for blobs."""
    backend: Backend[BlobStore] = request.param
    return Place(backend, backend.fresh(tmp_path, services))
