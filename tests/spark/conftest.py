"""Real parts for the Spark tests: a service, a Spark in the test's own process, quick JVM options for drivers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import milepost
from milepost.spark.pointer import ResolvingStore
from milepost.store import StateHandleStore
from testbed.postgresql import PostgresqlAbsent, PostgresqlServer, postgresql
from testbed.server import ServerProcess
from tests.spark.jobs import Place
from tests.spark.trials.queries import write_input
from tests.spark.under_test import java
from tests.spark.under_test.program import spark_session
from tests.spark.under_test.warming import end_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JVM_ENDS_SECONDS = 60.0


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The service, embedded, for all tests; each takes a store of its own."""
    with ServerProcess(tmp_path_factory.mktemp("service")) as server:
        server.start()
        yield server


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresqlServer]:
    """PostgreSQL, for all tests; each takes tables of its own."""
    try:
        with postgresql(tmp_path_factory.mktemp("postgresql"), uuid.uuid4().hex) as running:
            yield running
    except PostgresqlAbsent as absent:
        pytest.skip(str(absent))


@pytest.fixture(scope="session")
def java_options() -> str:
    """Options for the JVMs of the drivers."""
    return java.options(Path(__file__).parents[2] / ".cache")


@pytest.fixture(scope="session")
def spark(java_options: str) -> Iterator[SparkSession]:
    """A Spark in this process, for all tests that interrupt nothing."""
    session = spark_session(java_options, {})
    try:
        yield session
    finally:
        session.stop()
        end_jvm(_JVM_ENDS_SECONDS)


@pytest.fixture
def name() -> str:
    """A job's name that no other test has."""
    return f"job-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(service: ServerProcess) -> Iterator[milepost.Client]:
    """A client of the service, closed with its sessions."""
    with milepost.Client(service.url) as client:
        yield client


@pytest.fixture
def handles(client: milepost.Client, name: str) -> StateHandleStore:
    """The job's store, led by this test."""
    store = client.session("test").store(name)
    store.campaign()
    return store


@pytest.fixture
def certain(handles: StateHandleStore) -> ResolvingStore:
    """The same, with writes that end for certain."""
    return ResolvingStore(handles, outage_timeout=10.0)


@pytest.fixture
def place(spark: SparkSession, service: ServerProcess, name: str, tmp_path: Path) -> Place:
    """A job of this test's own, with two files of input."""
    place = Place(spark, service.url, name, tmp_path)
    write_input(place.input, 2)
    return place
