"""Real parts for all cells: a service and the gate before it, Kafka, Spark's connector, and compiled Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.kafka import KafkaServer
from testbed.maven import jars
from testbed.server import ServerProcess
from tests.spark.clusters.topics import Topics
from tests.spark.guarantees.gate import Gate, gate
from tests.spark.guarantees.outputs import Outputs
from tests.spark.supervise.supervised import spark_home

_KAFKA_SECONDS = 240.0
_SOURCES = Path(__file__).parent / "java"


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """Kafka, for all tests; each takes topics of its own."""
    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    try:
        yield server.serve(_KAFKA_SECONDS)
    finally:
        server.kill()


@pytest.fixture(scope="package")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled Java: what holds tasks, and the job that a user submits."""
    home = os.environ.get("JAVA_HOME")
    compiler = shutil.which("javac", path=f"{home}/bin" if home else None)
    if compiler is None:
        pytest.skip("jobs in Java need a JDK (javac), and here is a JRE alone")
    classes = tmp_path_factory.mktemp("classes")
    command = [compiler, "-cp", f"{spark_home()}/jars/*", "-d", str(classes), *map(str, _SOURCES.glob("*.java"))]
    subprocess.run(command, timeout=240, check=True)
    return Path(shutil.make_archive(str(classes), "zip", classes)).rename(classes.with_suffix(".jar"))


@pytest.fixture(scope="package")
def extra_jars(jar: Path) -> str:
    """What Spark needs for Kafka, PostgreSQL and tasks that stand still, for ``spark.jars``."""
    fetched = [path for name in ("spark-kafka", "postgresql") for path in sorted(jars(name).glob("*.jar"))]
    return ",".join(map(str, [jar, *fetched]))


@pytest.fixture(scope="package")
def guarded(service: ServerProcess) -> Iterator[Gate]:
    """The gate in front of the service. One trial uses it at a time."""
    with gate(service.url) as made:
        yield made


@pytest.fixture(scope="package")
def begin(broker: KafkaServer, guarded: Gate, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Begun]:
    """Begin a trial: its job and its places."""

    def begin(kind: str) -> Begun:
        job = f"{kind}{uuid.uuid4().hex[:8]}"
        directory = tmp_path_factory.mktemp(kind)
        outputs = Outputs(directory, f"webhdfs://{guarded.address}/jobs/{job}/tree", Topics(broker.address), job)
        outputs.prepare()
        return job, outputs

    return begin


Begun = tuple[str, Outputs]
