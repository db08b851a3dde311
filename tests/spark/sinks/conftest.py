"""A PostgreSQL for the tests of sinks, and its driver in the tests' Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from testbed.maven import jars
from testbed.postgresql import PostgresqlAbsent, PostgresqlServer, postgresql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = "correct-horse-battery"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresqlServer]:
    """The server, for all tests; each takes a schema of its own."""
    try:
        with postgresql(tmp_path_factory.mktemp("postgresql"), PASSWORD) as running:
            yield running
    except PostgresqlAbsent as absent:
        pytest.skip(str(absent))


@pytest.fixture(scope="session")
def spark(spark: SparkSession) -> SparkSession:
    """The tests' Spark with PostgreSQL's driver, as ``spark.jars`` would give it one."""
    (jar,) = jars("postgresql").glob("*.jar")
    spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture
def schema(server: PostgresqlServer, name: str) -> str:
    """A new schema, in which this test's tables are."""
    made = name.replace("-", "_")
    server.query(f"CREATE SCHEMA {made}")
    return made
