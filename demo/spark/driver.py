"""The driver to copy: a streaming query under Milepost. Any number of these may run; one leads, the others stand by.

What is the demo's own in it is the `Probe`, which notes what happens and stands still where the demo wants to break
the driver. Without it the function for ``foreachBatch`` is ``job.files(...)``.
"""

from __future__ import annotations

import milepost.spark
from demo.spark.probe import Probe
from demo.spark.sessions import quick_session
from demo.spark.settings import DriverSettings
from demo.spark.totals import flights_stream, running_totals
from demo.spark.warming import warm_up
from demo.timeline import LEADS


def main(settings: DriverSettings) -> None:
    """Lead the job, once it is this driver's turn, until its input is used up."""
    probe = Probe(settings)
    spark = quick_session(settings.name, settings.java_options)
    warm_up(spark)
    probe.stand_by()
    with (
        probe.noting_the_end(),
        milepost.spark.lead(
            spark,
            settings.services,
            settings.job,
            holder=settings.name,
            ttl=settings.ttl,
        ) as job,
    ):
        probe.note(LEADS, epoch=job.epoch)
        query = (
            running_totals(flights_stream(spark, settings.input))
            .writeStream.option("checkpointLocation", job.checkpointLocation)
            .foreachBatch(probe.around(job.files(settings.output)))
            .trigger(availableNow=True)
            .start()
        )
        job.awaitTermination(query)


if __name__ == "__main__":
    main(DriverSettings.from_command_line())
