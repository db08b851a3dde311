"""State of keys, windows and triggers, and timers, with the API of Beam, which Gearpump shares. `StateInternalsFactory`
returns the state of a key, and `TimerInternalsFactory` the timers of a key. Both keep their data in a table: a
`StateStore`, whose commits contain state and timers, or a `HeapTable` in memory.
"""

from milepost.state.dialects.beam.cells import GroupingState, ReadableState, State
from milepost.state.dialects.beam.containers import (
    BagState,
    MapState,
    MultimapState,
    OrderedListState,
    SetState,
    TimestampedValue,
)
from milepost.state.dialects.beam.internals import StateInternals, StateInternalsFactory, StateTag, StateTags, take_over
from milepost.state.dialects.beam.merging import merge_bags, merge_combining_values, merge_sets, merge_watermarks
from milepost.state.dialects.beam.namespaces import (
    TIMESTAMP_MAX_VALUE,
    TIMESTAMP_MIN_VALUE,
    BoundedWindow,
    GlobalWindow,
    GlobalWindowCoder,
    IntervalWindow,
    IntervalWindowCoder,
    StateNamespace,
    StateNamespaces,
)
from milepost.state.dialects.beam.tables import HeapTable, StateTable
from milepost.state.dialects.beam.timer_internals import TimerInternals, TimerInternalsFactory
from milepost.state.dialects.beam.timers import TimeDomain, TimerData, TimerDataCoder
from milepost.state.dialects.beam.values import (
    CombineFn,
    CombiningState,
    ReducingState,
    TimestampCombiner,
    ValueState,
    WatermarkHoldState,
)

__all__ = [
    "StateInternalsFactory",
    "StateInternals",
    "StateTable",
    "HeapTable",
    "StateNamespace",
    "StateNamespaces",
    "StateTag",
    "StateTags",
    "State",
    "ReadableState",
    "GroupingState",
    "ValueState",
    "BagState",
    "SetState",
    "MapState",
    "MultimapState",
    "OrderedListState",
    "TimestampedValue",
    "CombiningState",
    "CombineFn",
    "ReducingState",
    "WatermarkHoldState",
    "TimestampCombiner",
    "merge_bags",
    "merge_sets",
    "merge_combining_values",
    "merge_watermarks",
    "take_over",
    "TimerInternalsFactory",
    "TimerInternals",
    "TimerData",
    "TimerDataCoder",
    "TimeDomain",
    "BoundedWindow",
    "GlobalWindow",
    "GlobalWindowCoder",
    "IntervalWindow",
    "IntervalWindowCoder",
    "TIMESTAMP_MIN_VALUE",
    "TIMESTAMP_MAX_VALUE",
]
