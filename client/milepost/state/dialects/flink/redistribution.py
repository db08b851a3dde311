"""Says what of operator state each task gets when the number of tasks changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from milepost.state.dialects.flink.descriptors import OperatorStateDescriptor
from milepost.state.errors import Incompatible

T = TypeVar("T")


def even_split(lengths: Sequence[int], task: int, tasks: int) -> Iterator[tuple[int, range]]:
    """Iterate which elements of which list this task of ``tasks`` gets, for lists of these lengths.

    The lists one behind the other are cut into pieces that differ in length by one at most, so every element goes to
    one task, and their order stays.
    """
    total = sum(lengths)
    begin, end = task * total // tasks, (task + 1) * total // tasks
    start = 0
    for number, length in enumerate(lengths):
        piece = range(max(begin, start) - start, min(end, start + length) - start)
        if piece:
            yield number, piece
        start += length


def split_and_merged(
    descriptor: OperatorStateDescriptor[T], values: Sequence[bytes], task: int, tasks: int
) -> Iterator[T]:
    """Iterate the one value that this task of ``tasks`` gets of those of all tasks before; none if there were none.

    Raises `Incompatible` if the descriptor does not say how, or its function returns another number of values.
    """
    if not values:
        return
    if descriptor.split is None or descriptor.merge is None:
        raise Incompatible(
            f"the state {descriptor.name!r} is of another number of tasks: its descriptor needs split and merge"
        )
    merged = descriptor.merge([descriptor.coder.decode(one) for one in values])
    split = descriptor.split(merged, tasks)
    if len(split) != tasks:
        raise Incompatible(f"the state {descriptor.name!r} was split into {len(split)} values for {tasks} tasks")
    yield split[task]
