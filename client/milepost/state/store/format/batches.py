"""Rows as Arrow record batches, and back.

Arrow stores a column of bytes with a four-byte offset for each value. Offsets only rise, so they compress badly, and
with small values they were most of a file. So a record batch here is one row of lists: lengths, which are often equal,
replace offsets; and a key is stored without the prefix that it shares with the key before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import pyarrow as pa

from milepost.state.store.rows import Op, Row, prefix_of


def _list_of(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", kind, nullable=False))


SCHEMA = pa.schema(
    [
        pa.field("op", _list_of(pa.uint8()), nullable=False),
        pa.field("shared", _list_of(pa.uint8()), nullable=False),
        pa.field("key_length", _list_of(pa.uint32()), nullable=False),
        pa.field("keys", pa.binary(), nullable=False),
        pa.field("value_length", _list_of(pa.uint32()), nullable=False),
        pa.field("values", pa.binary(), nullable=False),
    ]
)
ROWS_SCHEMA = pa.schema(
    [
        pa.field("family", pa.uint32(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("op", pa.uint8(), nullable=False),
        pa.field("value", pa.binary(), nullable=True),
    ]
)
"""The schema of files of format 1, which Milepost reads but no longer writes."""

_MOST_SHARED = 255


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Turn sorted rows into a record batch."""
    keys, ops, values = zip(*rows, strict=True)
    shared = list(_shared(keys))
    return pa.record_batch(
        [
            pa.array([list(map(int, ops))], SCHEMA.field("op").type),
            pa.array([shared], SCHEMA.field("shared").type),
            pa.array([list(map(len, keys))], SCHEMA.field("key_length").type),
            pa.array([b"".join(key[count:] for key, count in zip(keys, shared, strict=True))], pa.binary()),
            pa.array([list(map(len, values))], SCHEMA.field("value_length").type),
            pa.array([b"".join(values)], pa.binary()),
        ],
        schema=SCHEMA,
    )


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Turn a record batch back into rows. Raises ValueError for a batch that was not made from rows."""
    if batch.num_rows != 1:
        raise ValueError(f"it has {batch.num_rows} rows of lists")
    ops, shared, key_lengths, suffixes, value_lengths, values = batch.columns
    counts = _numbers(shared, "B")
    lengths = (length - count for length, count in zip(_numbers(key_lengths, "I"), counts, strict=True))
    keys = []
    key = b""
    for count, suffix in zip(counts, _parts(suffixes, lengths), strict=True):
        key = key[:count] + suffix
        keys.append(key)
    return list(zip(keys, _numbers(ops, "B"), _parts(values, _numbers(value_lengths, "I")), strict=True))


def rows_of_format_1(batch: pa.RecordBatch) -> list[Row]:
    """Turn a record batch of `ROWS_SCHEMA` into rows."""
    numbers, keys, ops, values = (column.to_pylist() for column in batch.columns)
    if numbers[0] == numbers[-1]:  # the numbers are sorted, so all of them are equal
        prefix = prefix_of(numbers[0])
        keys = [prefix + key for key in keys]
    else:
        keys = [prefix_of(number) + key for number, key in zip(numbers, keys, strict=True)]
    if Op.REMOVE in ops:
        values = [value or b"" for value in values]
    return list(zip(keys, ops, values, strict=True))


def _shared(keys: Iterable[bytes]) -> Iterator[int]:
    """Iterate over the number of bytes that each key shares with the beginning of the key before it, up to the most
    that one byte can hold.
    """
    before = b""
    for key in keys:
        most = min(len(key), len(before), _MOST_SHARED)
        differing = int.from_bytes(key[:most], "big") ^ int.from_bytes(before[:most], "big")
        yield most - (differing.bit_length() + 7) // 8
        before = key


def _numbers(lists: pa.Array, kind: Literal["B", "I"]) -> list[int]:
    """Return the one list of a column of lists; much faster than Arrow's own conversion to Python numbers."""
    numbers = lists.flatten()
    if len(numbers) == 0:
        return []
    whole: list[int] = memoryview(numbers.buffers()[1]).cast("B").cast(kind).tolist()
    return whole[numbers.offset : numbers.offset + len(numbers)]


def _parts(column: pa.Array, lengths: Iterable[int]) -> list[bytes]:
    """Cut the one value of a column into parts of these lengths."""
    whole = column[0].as_py()
    parts = []
    start = 0
    for length in lengths:
        parts.append(whole[start : start + length])
        start += length
    if start != len(whole):
        raise ValueError(f"its parts have {start} bytes, not {len(whole)}")
    return parts
