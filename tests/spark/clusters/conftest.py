"""Real parts: a broker of Kafka and Spark's connector for all tests, and for each a service of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.kafka import KafkaServer, kafka
from testbed.maven import jars
from testbed.server import ServerProcess
from testbed.spark import Standalone, standalone
from tests.spark.clusters.drivers import Drivers, drivers
from tests.spark.clusters.setup import REDUCERS, Setup
from tests.spark.clusters.topics import Topics

ON_THE_CLUSTER = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": str(REDUCERS),
    "spark.locality.wait": "0s",  # else all tasks wait for the one executor that has read the first partitions
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
}


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """Kafka, for all tests; each takes topics of its own."""
    with kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture
def topics(broker: KafkaServer) -> Topics:
    """Its topics."""
    return Topics(broker.address)


@pytest.fixture(scope="package")
def connector() -> str:
    """What Spark needs to read and write Kafka, for ``spark.jars``."""
    return ",".join(str(jar) for jar in sorted(jars("spark-kafka").glob("*.jar")))


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two workers, which see none of the directories of these tests."""
    hidden = tmp_path_factory.getbasetemp()
    with standalone(tmp_path_factory.mktemp("cluster"), hidden=hidden) as started:
        yield started


@pytest.fixture
def on_the_cluster(cluster: Standalone) -> dict[str, str]:
    """Spark's settings of a driver on this machine, whose two executors are the cluster's."""
    here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {"spark.master": cluster.master.url, **here, **ON_THE_CLUSTER}


@pytest.fixture
def common() -> Iterator[Path]:
    """A directory that the workers of the cluster see."""
    directory = Path(tempfile.mkdtemp(prefix="common-", dir=Path(__file__).parents[3] / ".cache"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def job(topics: Topics, connector: str, java_options: str, name: str, tmp_path: Path) -> Iterator[Drivers]:
    """The drivers of a job that reads the topic ``NAME``, which is yet to be made; on this machine by default."""
    with ServerProcess(tmp_path / "service", pointers=f"embedded:{tmp_path}/service") as server:
        server.start()
        setup = Setup(
            url=server.url,
            store=name,
            kafka=topics.address,
            topic=name,
            events="",
            java_options=java_options,
            jars=connector,
        )
        with drivers(setup, server, tmp_path) as started:
            yield started


@pytest.fixture
def spread(job: Drivers, cluster: Standalone) -> Drivers:
    """The same on the cluster, with two executors of one core each; another driver finds room for two more."""
    job.setup = replace(job.setup, master=cluster.master.url, spark=ON_THE_CLUSTER)
    return job
