"""Runs a processor over the rows of one task, and changes one version of the task's state store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from milepost.state.errors import InvalidUse
from milepost.state.key_groups import KeyGroups
from milepost.state.processors.handle import ProcessorHandle
from milepost.state.processors.keys import GroupingKey
from milepost.state.processors.timers import BY_KEY, BY_TIME, BatchTimes, Current, TimeMode
from milepost.state.processors.types import RowMaker, tuples
from milepost.state.processors.variables import StateVariable
from milepost.state.store.contract.stores import StateStore

Rows = Iterator[Any]
"""The rows of a key: pandas frames, or single rows."""


class TimerValues:
    """The times of the current batch, as a processor gets them
    (``pyspark.sql.streaming.stateful_processor.TimerValues``).
    """

    def __init__(self, times: BatchTimes) -> None:
        self._times = times

    def getCurrentProcessingTimeInMs(self) -> int:
        """Return the time at which the batch began, in milliseconds since 1970."""
        return self._times.processing

    def getCurrentWatermarkInMs(self) -> int:
        """Return the watermark of the batch, in milliseconds since 1970."""
        return self._times.watermark


class ExpiredTimerInfo:
    """The timer that fires, as a processor gets it (``pyspark.sql.streaming.stateful_processor.ExpiredTimerInfo``)."""

    def __init__(self, expiry: int) -> None:
        self._expiry = expiry

    def getExpiryTimeInMs(self) -> int:
        """Return the time for which the timer was registered, in milliseconds since 1970."""
        return self._expiry


@dataclass(frozen=True)
class Batch:
    """What all tasks of a batch have in common: the encoding of keys, the division of keys into key groups, the state
    variables, and the times.
    """

    key: GroupingKey
    variables: Mapping[str, StateVariable]
    groups: KeyGroups
    mode: TimeMode
    times: BatchTimes


@dataclass(frozen=True)
class Outcome:
    """One output of a processor, and the key for which the processor returned it."""

    key: tuple[Any, ...]
    output: Any


def run_processor(
    processor: Any,
    batch: Batch,
    store: StateStore,
    groups: Iterable[int],
    rows: Iterable[tuple[bytes, Rows]],
    initial: Iterable[tuple[bytes, Rows]] = (),
    *,
    row_maker: RowMaker = tuples,
) -> Iterator[Outcome]:
    """Run a processor as Spark does, and iterate over its outputs. The changes stay in ``store``, which the caller
    commits.

    Call ``init``, ``handleInitialState`` for all rows of ``initial``, ``handleInputRows`` for each key of ``rows``,
    ``handleExpiredTimer`` for each timer in the key groups ``groups`` that is due, and ``close``. Then remove the
    expired values.

    Keys are encoded by `GroupingKey`, and the rows of one key are consecutive. ``row_maker`` makes the rows of structs
    within values.
    """
    for variable in batch.variables.values():
        store.create_column_family_if_absent(variable.family, multiple_values_per_key=variable.kind == "list")
        if variable.ttl is not None:
            store.create_column_family_if_absent(variable.expiry_family)
    if batch.mode is not TimeMode.NONE:
        store.create_column_family_if_absent(BY_KEY)
        store.create_column_family_if_absent(BY_TIME)
    current = Current(store, batch.groups, batch.mode, batch.times)
    handle = ProcessorHandle(current, batch.variables, rows=row_maker)
    values = TimerValues(batch.times)
    groups = list(groups)
    processor.init(handle)
    handle.initialized()

    def handled(key: bytes) -> tuple[Any, ...]:
        current.set(key)
        return batch.key.decode(key)

    for encoded, states in initial:
        key = handled(encoded)
        for state in states:
            processor.handleInitialState(key, state, values)
    for encoded, given in rows:
        key = handled(encoded)
        for output in _outputs(processor.handleInputRows(key, given, values)):
            yield Outcome(key, output)
    now = batch.times.now(batch.mode)
    if now is not None:
        for encoded, expiry in handle.timers.due(groups, now):
            key = handled(encoded)
            for output in _outputs(processor.handleExpiredTimer(key, values, ExpiredTimerInfo(expiry))):
                yield Outcome(key, output)
            current.set(encoded)
            handle.timers.delete(expiry)
    current.unset()
    processor.close()
    handle.clean(groups)


def _outputs(found: Any) -> Iterator[Any]:
    if found is None:
        raise InvalidUse("a processor has to return an iterator of its outputs, also where it has none")
    return iter(found)


def drop_variables(store: StateStore, variables: Iterable[StateVariable]) -> None:
    """Remove state variables with all their values from a state store."""
    for variable in variables:
        store.remove_column_family_if_exists(variable.family)
        store.remove_column_family_if_exists(variable.expiry_family)
