"""PostgreSQL's driver in the tests' Spark, and a schema for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testbed.maven import jars
from testbed.postgresql import PostgresqlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(spark: SparkSession) -> SparkSession:
    """The tests' Spark with PostgreSQL's driver, as ``spark.jars`` would give it one."""
    (jar,) = jars("postgresql").glob("*.jar")
    spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture
def schema(database: PostgresqlServer, name: str) -> str:
    """A new schema, in which this test's tables are."""
    made = name.replace("-", "_")
    database.query(f"CREATE SCHEMA {made}")
    return made
