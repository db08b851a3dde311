"""What a test sees of the log has pytest's form, also after Spark has logged an exception in the same process."""

from __future__ import annotations

import logging

import pytest
from pyspark.logger import PySparkLogger

LOGGER = "DataFrameQueryContextLogger"


@pytest.fixture
def _spark_has_logged() -> None:
    _log_as_spark()


def _log_as_spark() -> None:
    """Do as ``pyspark.errors.exceptions.base`` before it logs an exception that names a line of a frame."""
    PySparkLogger.getLogger(LOGGER).propagate = False


def test_spark_logs_in_the_midst_of_a_test() -> None:
    _log_as_spark()
    assert isinstance(logging.getLogger(LOGGER), PySparkLogger)


@pytest.mark.usefixtures("_spark_has_logged")
def test_a_line_is_no_json_for_those_that_come_after(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("milepost.test").warning('a "quoted" word')
    assert 'a "quoted" word' in caplog.text
