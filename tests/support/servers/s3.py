"""A real S3 server for the tests: SeaweedFS, started once a run, with a bucket in which each test has a prefix."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.seaweedfs import ALL_RIGHTS, S3Endpoint, SeaweedFS
from tests.contracts.places import Services

BUCKET = "milepost-tests"


@contextmanager
def running(directory: Path) -> Iterator[SeaweedFS]:
    """A server of one's own, and its keys in the environment: for this process and for those it starts."""
    with keys(directory), _started(directory) as server:
        yield server


@contextmanager
def keys(directory: Path) -> Iterator[None]:
    """The keys alone."""
    with pytest.MonkeyPatch.context() as environment:
        alone(environment, directory)
        for name, value in ALL_RIGHTS.environment.items():
            environment.setenv(name, value)
        yield


@contextmanager
def _started(directory: Path) -> Iterator[SeaweedFS]:
    with SeaweedFS(directory) as server:
        server.start()
        server.make_bucket(BUCKET)
        yield server


@contextmanager
def _of_run(directory: Path) -> Iterator[str]:
    with _started(directory) as server:
        yield server.endpoint_url


def alone(environment: pytest.MonkeyPatch, directory: Path) -> None:
    """Hide what the machine itself knows of AWS: keys, files and the metadata service of a cloud."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        environment.delenv(name)
    environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
    environment.setenv("AWS_CONFIG_FILE", str(directory / "no-config"))
    environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(directory / "no-credentials"))


def shared(services: Services) -> S3Endpoint:
    """The run's server. It is there to be used, not to be stopped."""
    services.get("seaweedfs-keys", keys)
    return S3Endpoint(services.of_run("seaweedfs", _of_run))


def fresh_url(directory: Path, services: Services) -> str:
    """A prefix of its own in the run's bucket, as ``--blobs`` takes it."""
    del directory
    return shared(services).url(BUCKET, f"tests/{secrets.token_hex(8)}")
