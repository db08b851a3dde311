"""Writes and reads the files of a state store. A file is a header and record batches, which together are an Arrow
stream that any Arrow library reads.

No part of a file is used before its digest is verified.

Arrow stores a column of bytes with a four-byte offset for each value. Rising offsets compress badly, and with small
values they would be most of a file. So a record batch here has one row of lists, with the lengths of keys and values,
which are often equal, in place of offsets. A key is stored without the prefix that it shares with the key before it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pyarrow as pa

from milepost.state.errors import InvalidUse, StateDamaged
from milepost.state.store.contract.values import StateStoreId
from milepost.state.store.files.contract import StateFiles
from milepost.state.store.format.heads import (
    FORMAT,
    Block,
    Head,
    block_from_json,
    block_to_json,
    head_from_json,
    head_to_json,
)
from milepost.state.store.format.names import StateFileName, digest_of_head
from milepost.state.store.rows import Op, Row, prefix_of

_METADATA_KEY = b"milepost.state"
BATCH_BYTES = 512 * 1024
"""The bytes of keys and values after which a record batch ends; a batch has at least one row."""

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")

_FIRST_READ = 256 * 1024
_MOST_HEAD_BYTES = 1 << 30
_CONTINUATION = b"\xff\xff\xff\xff"
_MOST_SHARED = 255


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
_SCHEMA_MESSAGE = SCHEMA.serialize().to_pybytes()


class Written(NamedTuple):
    """A file that is ready to be created. ``content`` is its bytes, and ``digest`` the hex digits in its name, with
    which a reader verifies its header.
    """

    digest: str
    content: bytes


class Body(NamedTuple):
    """The record batches of a file as Arrow messages, in order, and a `Block` that describes each of them."""

    messages: tuple[bytes, ...]
    blocks: tuple[Block, ...]

    @property
    def rows(self) -> int:
        """The number of rows in all record batches."""
        return sum(block.rows for block in self.blocks)


def file_of(store: StateStoreId, head: Head, body: Body) -> Written:
    """Assemble a file of the state store ``store`` from its header and its record batches. Each call returns a
    different file, because the header contains a random number.
    """
    document = {
        "format": FORMAT,
        "store": {"operator": store.operator, "partition": store.partition, "name": store.name},
        "nonce": secrets.token_hex(16),
        **head_to_json(head),
        "batches": [block_to_json(block) for block in body.blocks],
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    start = SCHEMA.with_metadata({_METADATA_KEY: text}).serialize().to_pybytes()
    return Written(digest_of_head(start), b"".join((start, *body.messages, _END_OF_STREAM)))


def bodies_of(rows: Iterable[Row], most_bytes: int | None = None) -> Iterator[Body]:
    """Turn sorted rows into the bodies (record batches) of one or several files, with about ``most_bytes`` of keys and
    values each, or of a single file if ``most_bytes`` is None.

    Without rows there is no body.
    """
    messages, blocks = list[bytes](), list[Block]()
    batch: list[Row] = []
    pending = total = 0

    def end_batch() -> None:
        message = _message(batch)
        offset = blocks[-1].offset + blocks[-1].length if blocks else 0
        digest = hashlib.sha256(message).hexdigest()
        blocks.append(Block(offset, len(message), len(batch), digest, batch[0][0], batch[-1][0]))
        messages.append(message)
        batch.clear()

    for row in rows:
        batch.append(row)
        pending += len(row[0]) + len(row[2])
        if pending >= BATCH_BYTES:
            end_batch()
            total, pending = total + pending, 0
            if most_bytes is not None and total >= most_bytes:
                yield Body(tuple(messages), tuple(blocks))
                messages.clear()
                blocks.clear()
                total = 0
    if batch:
        end_batch()
    if blocks:
        yield Body(tuple(messages), tuple(blocks))


def body_of(rows: Iterable[Row]) -> Body:
    """Turn all rows into the record batches of one file; without rows there are none."""
    return next(bodies_of(rows), Body((), ()))


def _message(rows: Sequence[Row]) -> bytes:
    """Return the rows as the Arrow message of a record batch. In a stream, the message of the schema precedes it; that
    is not part of the result.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=_OPTIONS) as writer:
        writer.write_batch(batch_of(rows))
    return bytes(memoryview(sink.getvalue())[len(_SCHEMA_MESSAGE) : -len(_END_OF_STREAM)])


@dataclass(frozen=True)
class OpenedFile:
    """A file of a state store whose header is verified, and whose record batches are read and verified one at a
    time.
    """

    head: Head
    blocks: tuple[Block, ...]
    path: str
    _files: StateFiles
    _body_start: int
    _beginning: bytes
    _format: int

    def rows(self, start: bytes = b"", end: bytes | None = None) -> Iterator[Row]:
        """Iterate over the rows from the key ``start`` up to, but not including, ``end``. Only the record batches that
        may contain such rows are read.
        """
        for batch in self.batches(start, end):
            if not batch or (batch[0][0] >= start and (end is None or batch[-1][0] < end)):
                yield from batch
            else:
                yield from (row for row in batch if row[0] >= start and (end is None or row[0] < end))

    def batches(self, start: bytes = b"", end: bytes | None = None) -> Iterator[list[Row]]:
        """Iterate over the record batches that may contain keys from ``start`` up to, but not including, ``end``, each
        as a list of all its rows. Raises `StateDamaged`.
        """
        for block in self.blocks:
            if block.last >= start and (end is None or block.first < end):
                yield self._read(block)

    def _read(self, block: Block) -> list[Row]:
        place = self._body_start + block.offset
        message = self._beginning[place : place + block.length]
        if len(message) < block.length:
            message = self._files.read(self.path, place, block.length)
        if len(message) < block.length:
            raise StateDamaged(self.path, f"it ends within the record batch at {place}")
        if hashlib.sha256(message).hexdigest() != block.sha256:
            raise StateDamaged(self.path, f"the record batch at {place} has another digest")
        try:
            if self._format == 1:
                return rows_of_format_1(pa.ipc.read_record_batch(pa.py_buffer(message), ROWS_SCHEMA))
            return rows_of(pa.ipc.read_record_batch(pa.py_buffer(message), SCHEMA))
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            raise StateDamaged(self.path, f"the record batch at {place} cannot be read: {error}") from error


def open_file(files: StateFiles, store: StateStoreId, name: StateFileName) -> OpenedFile:
    """Open a file of the state store ``store``: read and verify its header. Raises `FileMissing`, `StateDamaged`."""
    path = f"{store.directory}/{name}"
    beginning = files.read(path, 0, _FIRST_READ)
    if beginning[:4] != _CONTINUATION or len(beginning) < 8:
        raise StateDamaged(path, "it does not begin as an Arrow stream does")
    length = 8 + int.from_bytes(beginning[4:8], "little")
    if len(beginning) < length <= _MOST_HEAD_BYTES:
        beginning += files.read(path, len(beginning), length - len(beginning))
    start = beginning[:length]
    if digest_of_head(start) != name.digest:
        raise StateDamaged(path, "its head has not the digest that its name has")
    try:
        document = json.loads(pa.ipc.read_schema(pa.py_buffer(start)).metadata[_METADATA_KEY])
        if document["format"] not in (1, FORMAT):
            raise ValueError(f"it is of format {document['format']}, and this version knows those up to {FORMAT}")
        kept = StateStoreId(**document["store"])
        head = head_from_json(document)
        blocks = tuple(block_from_json(block) for block in document["batches"])
    except (pa.ArrowException, ValueError, KeyError, TypeError, AttributeError, OverflowError, InvalidUse) as error:
        raise StateDamaged(path, f"its head cannot be read: {error}") from error
    if kept != store:
        raise StateDamaged(path, f"it belongs to the store {kept.directory}")
    if head.version != name.version:
        raise StateDamaged(path, f"it is of version {head.version}")
    return OpenedFile(head, blocks, path, files, length, beginning, document["format"])


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Turn sorted rows of a state store into an Arrow record batch."""
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
    """Turn an Arrow record batch back into the rows from which `batch_of` made it. Raises ValueError for another
    batch.
    """
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
    """Turn a record batch with the schema `ROWS_SCHEMA`, which older files have, into rows."""
    numbers, keys, ops, values = (column.to_pylist() for column in batch.columns)
    if numbers[0] == numbers[-1]:  # rows are sorted by family, so all are of the same family
        prefix = prefix_of(numbers[0])
        keys = [prefix + key for key in keys]
    else:
        keys = [prefix_of(number) + key for number, key in zip(numbers, keys, strict=True)]
    if Op.REMOVE in ops:
        values = [value or b"" for value in values]
    return list(zip(keys, ops, values, strict=True))


def _shared(keys: Iterable[bytes]) -> Iterator[int]:
    """Iterate over the length of the prefix that each key shares with the key before it, 255 bytes at most."""
    before = b""
    for key in keys:
        most = min(len(key), len(before), _MOST_SHARED)
        differing = int.from_bytes(key[:most], "big") ^ int.from_bytes(before[:most], "big")
        yield most - (differing.bit_length() + 7) // 8
        before = key


def _numbers(lists: pa.Array, kind: Literal["B", "I"]) -> list[int]:
    """Return the only list in a column of lists as Python numbers. This is much faster than Arrow's ``to_pylist``."""
    numbers = lists.flatten()
    if len(numbers) == 0:
        return []
    whole: list[int] = memoryview(numbers.buffers()[1]).cast("B").cast(kind).tolist()
    return whole[numbers.offset : numbers.offset + len(numbers)]


def _parts(column: pa.Array, lengths: Iterable[int]) -> list[bytes]:
    """Split the only value of a column into parts of these lengths. Raises ValueError if they do not add up to its
    size.
    """
    whole = column[0].as_py()
    parts = []
    start = 0
    for length in lengths:
        parts.append(whole[start : start + length])
        start += length
    if start != len(whole):
        raise ValueError(f"its parts have {start} bytes, not {len(whole)}")
    return parts
