"""Runs PySpark's ``StatefulProcessor`` over a state store, without Spark's JVM.

A processor of ``transformWithStateInPandas`` or ``transformWithState`` runs here unchanged. Its handle, its value, list
and map states, and its timers have the methods of ``pyspark.sql.streaming.stateful_processor``. State is kept in a
state store of `milepost.state.store`, and the caller passes the time in. `milepost.spark.stateful` runs one processor
in each task.
"""

from milepost.state.processors.handle import ProcessorHandle, declared
from milepost.state.processors.keys import GroupingKey
from milepost.state.processors.running import Batch, Outcome, run_processor
from milepost.state.processors.timers import BatchTimes, TimeMode
from milepost.state.processors.variables import StateVariable, evolved

__all__ = [
    "Batch",
    "BatchTimes",
    "GroupingKey",
    "Outcome",
    "ProcessorHandle",
    "StateVariable",
    "TimeMode",
    "declared",
    "evolved",
    "run_processor",
]
