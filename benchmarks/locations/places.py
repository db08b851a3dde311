"""The places in which Spark's checkpoint can be, each with the servers that it takes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

import milepost.spark
from milepost import Client
from testbed.hadoop.hdfs import Hdfs
from testbed.maven import jars
from testbed.replicated import ReplicatedTestbed
from testbed.seaweedfs import ALL_RIGHTS, SeaweedFS
from testbed.server import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL, EMBEDDED, REPLICATED, HDFS, S3A = "local", "embedded", "replicated", "hdfs", "s3a"

_TTL_SECONDS = 60.0
_START_SECONDS = 300.0
_REQUESTS = re.compile(r'^milepost_requests_total\{method="(\w+)",status="(\d+)"\} (\S+)$', re.MULTILINE)
_COMMITS = re.compile(r"^milepost_groups_committed (\S+)$", re.MULTILINE)


class Place(ABC):
    """A place for checkpoints; ``settings`` are what Spark has to be started with to use it."""

    settings: Mapping[str, str] = {}

    @abstractmethod
    def checkpoint(self, spark: SparkSession, name: str) -> AbstractContextManager[str]:
        """Yield the checkpoint location of the job ``name``, which can be used until the end of the block."""

    @contextmanager
    def held(self, name: str) -> Iterator[None]:  # noqa: ARG002
        """Keep drivers of the job ``name`` waiting until the end of the block, if the place can do that."""
        yield

    def counted(self) -> Counter[str]:
        """Return what its servers have counted so far: requests by method and status, and commits of the journal."""
        return Counter()


class _Directory(Place):
    """Anything that Spark uses by an address alone."""

    def __init__(self, base: str, settings: Mapping[str, str] | None = None) -> None:
        self.settings = settings or {}
        self._base = base

    @contextmanager
    def checkpoint(self, spark: SparkSession, name: str) -> Iterator[str]:  # noqa: ARG002
        """See `Place.checkpoint`."""
        yield f"{self._base}/{name}"


class Milepost(Place):
    """A deployment of Milepost, with these servers. A job is led for as long as its location is used.

    One Spark leads no two jobs of one name, so that of the deployment is a part of the job's.
    """

    def __init__(self, name: str, servers: Sequence[ServerProcess]) -> None:
        self._name = name
        self.urls = [server.url for server in servers]  # and not the servers: drivers in other processes get a copy
        self._asked = 0

    @contextmanager
    def checkpoint(self, spark: SparkSession, name: str) -> Iterator[str]:
        """See `Place.checkpoint`."""
        with milepost.spark.lead(spark, self.urls, f"{self._name}-{name}", ttl=_TTL_SECONDS) as job:
            yield job.checkpointLocation

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """See `Place.held`: another session has the epoch."""
        with Client(self.urls) as client:
            store = client.session("holder", ttl=_TTL_SECONDS).store(f"{self._name}-{name}")
            store.campaign()
            yield
            store.resign()

    def counted(self) -> Counter[str]:
        """See `Place.counted`. The questions themselves do not count."""
        counted: Counter[str] = Counter()
        for url in self.urls:
            text = httpx.get(f"{url}/metrics", timeout=60.0).raise_for_status().text
            for method, status, number in _REQUESTS.findall(text):
                counted[f"{method} {status}"] += int(float(number))
            counted["commits"] += sum(int(float(number)) for number in _COMMITS.findall(text))
            counted["GET 200"] -= self._asked
        self._asked += 1
        return counted


@contextmanager
def _local(directory: Path) -> Iterator[Place]:
    yield _Directory(directory.as_uri())


@contextmanager
def _embedded(directory: Path) -> Iterator[Place]:
    with ServerProcess(directory, "--log-level", "warning") as server:
        yield Milepost(EMBEDDED, [server.start(deadline=_START_SECONDS)])


@contextmanager
def _replicated(directory: Path) -> Iterator[Place]:
    with ReplicatedTestbed(directory, "--log-level", "warning") as testbed:
        yield Milepost(REPLICATED, testbed.start(_START_SECONDS).replicas)


@contextmanager
def _hdfs(directory: Path) -> Iterator[Place]:
    with Hdfs(directory) as cluster:
        cluster.start(_START_SECONDS)
        yield _Directory(f"hdfs://{cluster.namenode.port.address}", {"spark.hadoop.dfs.replication": "1"})


@contextmanager
def _s3a(directory: Path) -> Iterator[Place]:
    with SeaweedFS(directory) as s3:
        s3.start(_START_SECONDS)
        s3.make_bucket("checkpoints")
        settings = {
            "endpoint": s3.endpoint_url,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": ALL_RIGHTS.access_key,
            "secret.key": ALL_RIGHTS.secret_key,
        }
        prefixed = {f"spark.hadoop.fs.s3a.{key}": value for key, value in settings.items()}
        classes = ",".join(str(jar) for jar in sorted(jars("spark-s3a").glob("*.jar")))
        yield _Directory("s3a://checkpoints", {"spark.jars": classes, **prefixed})


PLACES: Mapping[str, Callable[[Path], AbstractContextManager[Place]]] = {
    LOCAL: _local,
    EMBEDDED: _embedded,
    REPLICATED: _replicated,
    HDFS: _hdfs,
    S3A: _s3a,
}
"""By name. Each is given a directory for its files, and serves until the end of its block."""
