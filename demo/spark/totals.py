"""The stateful query that both drivers run: flights in, flights with their carrier's running totals out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from demo.spark.flights import SCHEMA

TOTALS = "flights long, miles long"


def flights_stream(spark: SparkSession, directory: str) -> DataFrame:
    """The flights under ``directory``, one file in each micro-batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(directory)


def running_totals(flights: DataFrame) -> DataFrame:
    """Each flight, with how many flights and miles its carrier has flown up to it, it included.

    The totals are the query's state: a driver that goes on from the wrong checkpoint shows in every later row.
    """
    return (
        flights.select("id", "carrier", "distance")
        .groupBy("carrier")
        .applyInPandasWithState(
            _count_up,
            outputStructType=f"id long, carrier string, distance long, {TOTALS}",
            stateStructType=TOTALS,
            outputMode="append",
            timeoutConf=GroupStateTimeout.NoTimeout,
        )
    )


def _count_up(_carrier: Any, chunks: Iterator[Any], state: GroupState) -> Iterator[Any]:
    """Called with the flights of one carrier in one micro-batch, as pandas data frames."""
    flights, miles = state.get if state.exists else (0, 0)
    for chunk in chunks:
        counted = chunk.reset_index(drop=True)
        counted["flights"] = flights + counted.index + 1
        counted["miles"] = miles + counted["distance"].cumsum()
        flights, miles = flights + len(counted), miles + int(counted["distance"].sum())
        yield counted
    state.update((flights, miles))
