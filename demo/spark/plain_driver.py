"""The same query without Milepost: every driver uses one checkpoint directory and appends its batches to the output.

It has no way to tell that the driver before it is gone: who stands by is told from outside to begin.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from demo.spark.probe import Probe
from demo.spark.sessions import quick_session
from demo.spark.settings import DriverSettings
from demo.spark.totals import flights_stream, running_totals
from demo.spark.warming import warm_up
from demo.timeline import LEADS


def main(settings: DriverSettings) -> None:
    """Run the query from its checkpoint directory until its input is used up."""
    probe = Probe(settings)
    spark = quick_session(settings.name, settings.java_options)
    warm_up(spark)
    probe.stand_by()

    def append(frame: DataFrame, _batch: int) -> None:
        frame.write.mode("append").parquet(settings.output)

    with probe.noting_the_end():
        probe.note(LEADS)
        query = (
            running_totals(flights_stream(spark, settings.input))
            .writeStream.option("checkpointLocation", settings.checkpoints)
            .foreachBatch(probe.around(append))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


if __name__ == "__main__":
    main(DriverSettings.from_command_line())
