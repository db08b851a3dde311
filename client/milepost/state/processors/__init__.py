"""Runs PySpark's ``StatefulProcessor`` over a state store, without Spark's JVM.

A processor of ``transformWithStateInPandas`` or ``transformWithState`` runs here unchanged: its handle, and the value,
list and map states and the timers from the handle, have the methods of ``pyspark.sql.streaming.stateful_processor``.
State is kept in a `milepost.state.store`, and the time is an argument. `milepost.spark.stateful` runs one processor in
each task.
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
