"""A Spark session for a short life on a small machine."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

_CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.adaptive.enabled": "false",  # Spark switches it off for streams anyway, with a warning
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}


def quick_session(name: str, java_options: str) -> SparkSession:
    """A session in this process, on two cores, that starts quickly; ``java_options`` are those of `demo.spark.java`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in _CONFIGURATION.items():
        builder = builder.config(key, value)
    return builder.config("spark.driver.extraJavaOptions", java_options).getOrCreate()
