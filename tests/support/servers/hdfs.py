"""A real HDFS for the tests, started once a session, with a directory in it for each test."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import hdfs_native
import pytest

from testbed.hadoop.hdfs import Hdfs, hdfs
from tests.contracts.places import Services

# Small blocks, so that larger blobs have several of them.
SETTINGS: Mapping[str, str] = {"dfs.blocksize": "4194304"}
_VARIABLES = ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER", "HADOOP_TOKEN_FILE_LOCATION")


@contextmanager
def running(directory: Path, *, datanodes: int = 1) -> Iterator[Hdfs]:
    """One that hears nothing of what the machine itself knows of Hadoop; nor do those who use it."""
    with pytest.MonkeyPatch.context() as environment:
        alone(environment)
        with hdfs(directory, datanodes=datanodes, settings=SETTINGS) as started:
            yield started


def alone(environment: pytest.MonkeyPatch) -> None:
    """Hide what the machine itself knows of Hadoop."""
    for name in _VARIABLES:
        environment.delenv(name, raising=False)


def shared(services: Services) -> Hdfs:
    """The session's HDFS. It is there to be used, not to be stopped."""
    return services.get("hdfs", running)


def fresh_url(directory: Path, services: Services) -> str:
    """A directory of its own in the session's HDFS, as ``--blobs`` takes it."""
    del directory
    return shared(services).url(fresh_path())


def fresh_path() -> str:
    """A path that nobody has used."""
    return f"tests/{secrets.token_hex(8)}"


@dataclass(frozen=True)
class HdfsPlace:
    """A directory in an HDFS; ``client`` is a plain one, of the superuser, for what goes on behind our back."""

    server: Hdfs
    path: str
    client: hdfs_native.Client

    @classmethod
    def fresh(cls, server: Hdfs) -> HdfsPlace:
        """One that is not made yet."""
        return cls(server, fresh_path(), hdfs_native.Client(server.url("")))

    @property
    def url(self) -> str:
        """What `HdfsBlobs` takes."""
        return self.server.url(self.path)

    def at(self, key: str) -> str:
        """The path of a key's file."""
        return f"/{self.path}/{key}"

    def write(self, key: str, body: bytes) -> None:
        """Put a file anywhere, over another if there is one."""
        options = hdfs_native.WriteOptions(overwrite=True)
        with self.client.create(self.at(key), options) as writer:
            writer.write(body)

    def names(self) -> list[str]:
        """All files and directories, sorted."""
        found = self.client.list_status(f"/{self.path}", recursive=True)
        return sorted(status.path.removeprefix(f"/{self.path}/") for status in found)

    def age(self, key: str, seconds: float) -> None:
        """Make a file or directory look as if it had last changed so long ago."""
        then = round((time.time() - seconds) * 1000)
        self.client.set_times(self.at(key), then, then)
