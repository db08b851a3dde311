"""A real S3 server for the tests: SeaweedFS, started once a session, with a bucket in which each test has a prefix."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.seaweedfs import ALL_RIGHTS, SeaweedFS
from tests.contracts.places import Services

BUCKET = "milepost-tests"


@contextmanager
def running(directory: Path) -> Iterator[SeaweedFS]:
    """The server, and its keys in the environment: for this process and for those it starts."""
    with pytest.MonkeyPatch.context() as environment, SeaweedFS(directory) as server:
        alone(environment, directory)
        for name, value in ALL_RIGHTS.environment.items():
            environment.setenv(name, value)
        server.start()
        server.make_bucket(BUCKET)
        yield server


def alone(environment: pytest.MonkeyPatch, directory: Path) -> None:
    """Hide what the machine itself knows of AWS: keys, files and the metadata service of a cloud."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        environment.delenv(name)
    environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
    environment.setenv("AWS_CONFIG_FILE", str(directory / "no-config"))
    environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(directory / "no-credentials"))


def shared(services: Services) -> SeaweedFS:
    """The session's server. It is there to be used, not to be stopped."""
    return services.get("seaweedfs", running)


def fresh_url(directory: Path, services: Services) -> str:
    """A prefix of its own in the session's bucket, as ``--blobs`` takes it."""
    del directory
    return shared(services).url(BUCKET, f"tests/{secrets.token_hex(8)}")
