"""Merges the state of several windows into the state of one, when the windows merge (Beam's ``StateMerging``).
``sources`` are the cells of the windows that merge. ``result`` is the cell of the merged window, and may be one of the
sources. All other sources are empty afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from milepost.state.dialects.beam.cells import GroupingState
from milepost.state.dialects.beam.containers import BagState, SetState
from milepost.state.dialects.beam.namespaces import BoundedWindow
from milepost.state.dialects.beam.values import CombiningState, WatermarkHoldState

T = TypeVar("T")
G = TypeVar("G", bound="GroupingState[Any, Any]")
InputT = TypeVar("InputT")
AccumT = TypeVar("AccumT")
OutputT = TypeVar("OutputT")


def merge_bags(sources: Iterable[BagState[T]], result: BagState[T]) -> None:
    """Add the values of the sources to the result (Beam's ``mergeBags``)."""
    _move(sources, result)


def merge_sets(sources: Iterable[SetState[T]], result: SetState[T]) -> None:
    """Add the elements of the sources to the result (Beam's ``mergeSets``)."""
    _move(sources, result)


def merge_combining_values(
    sources: Iterable[CombiningState[InputT, AccumT, OutputT]], result: CombiningState[InputT, AccumT, OutputT]
) -> None:
    """Merge the accumulators of the sources and of the result into the result (Beam's ``mergeCombiningValues``)."""
    filled = [source for source in _others(sources, result) if not source.is_empty().read()]
    if filled:
        result.add_accum(result.merge_accumulators([source.get_accum() for source in filled]))
    for source in filled:
        source.clear()


def merge_watermarks(
    sources: Iterable[WatermarkHoldState], result: WatermarkHoldState, result_window: BoundedWindow
) -> None:
    """Replace the watermark holds of the sources by one hold of the result, at the time that the result's
    `TimestampCombiner` gives for ``result_window``, the merged window (Beam's ``mergeWatermarks``). With
    ``END_OF_WINDOW``, the result gets a hold even if no source had one.
    """
    cells = list(sources)
    if not cells:
        return
    for cell in cells:
        cell.read_later()
    found = [hold for cell in cells if (hold := cell.read()) is not None]
    for cell in cells:
        cell.clear()
    combiner = result.timestamp_combiner
    if found or combiner.depends_only_on_window:
        result.add(combiner.merge(result_window, found))


def _move(sources: Iterable[G], result: G) -> None:
    for source in _others(sources, result):
        for value in source.read():
            result.add(value)
        source.clear()


def _others(sources: Iterable[G], result: G) -> list[G]:
    return list({id(source): source for source in sources if source is not result}.values())
