"""A Spark that knows the data source, and a job with published output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from milepost.spark.datasource import MilepostDataSource
from tests.spark.jobs import Place
from tests.spark.output.test_files import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def registered(request: pytest.FixtureRequest) -> None:
    """Register the data source, for tests that have a Spark."""
    if request.node.get_closest_marker("spark"):
        spark: SparkSession = request.getfixturevalue("spark")
        spark.dataSource.register(MilepostDataSource)


@pytest.fixture
def published(place: Place) -> Place:
    """A job that has published the batches 0 to 3."""
    place.add_input(4)
    run(place)
    return place
