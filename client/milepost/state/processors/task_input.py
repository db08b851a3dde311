"""Splits the rows of a task into its partitions, and these into keys."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from milepost.state.errors import InvalidUse
from milepost.state.processors.running import Rows

KEY = "__milepost_key"
PARTITION = "__milepost_partition"
RESERVED = (KEY, PARTITION)


def frames_by_key(frames: Iterable[Any]) -> Iterator[tuple[int, Iterator[tuple[bytes, Rows]]]]:
    """Split pandas frames, sorted by `PARTITION` and `KEY`, into partitions, and these into keys and their frames.

    Each partition begins with a row without a key, so that it appears even without other rows.
    """

    import pandas

    def slices() -> Iterator[tuple[int, bytes | None, Any]]:
        for frame in frames:
            keys = frame[KEY].tolist()
            partitions = frame[PARTITION].tolist()
            data = frame.drop(columns=list(RESERVED))
            start, last = 0, len(keys)
            while start < last:
                end, key, partition = start + 1, keys[start], partitions[start]
                while end < last and keys[end] == key and partitions[end] == partition:
                    end += 1
                part = data.iloc[start:end]
                part.index = pandas.RangeIndex(end - start)  # pandas takes twice as long to make an index from a range
                yield int(partition), key, part
                start = end

    return _by_partition(slices())


def rows_by_key(batches: Iterable[pa.RecordBatch], row: Any) -> Iterator[tuple[int, Iterator[tuple[bytes, Rows]]]]:
    """Split record batches in the same way into keys and their rows, which ``row`` makes from the names of fields."""

    def each() -> Iterator[tuple[int, bytes | None, Any]]:
        for batch in batches:
            keys, partitions = batch.column(KEY).to_pylist(), batch.column(PARTITION).to_pylist()
            names = [name for name in batch.schema.names if name not in RESERVED]
            make = row(*names)
            columns = [batch.column(name).to_pylist() for name in names]
            for key, partition, *values in zip(keys, partitions, *columns, strict=True):
                yield int(partition), key, make(*values)

    return _by_partition(each())


def _by_partition(parts: Iterator[tuple[int, bytes | None, Any]]) -> Iterator[tuple[int, Iterator[tuple[bytes, Rows]]]]:
    for partition, group in itertools.groupby(parts, key=lambda part: part[0]):
        first = next(group)
        if first[1] is not None:
            raise InvalidUse(f"the rows of partition {partition} came without its beginning: they were divided again")
        yield partition, _by_key(group)  # noqa: B031  (used up before the next partition is asked for)


def _by_key(group: Iterator[tuple[int, bytes | None, Any]]) -> Iterator[tuple[bytes, Rows]]:
    for key, same in itertools.groupby(group, key=lambda part: part[1]):
        assert key is not None
        yield bytes(key), (part[2] for part in same)
