"""Writes files: a head and record batches, which together are an Arrow stream that any Arrow library reads."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from milepost.state.store.contract.ids import StateStoreId
from milepost.state.store.format.batches import SCHEMA, batch_of
from milepost.state.store.format.heads import FORMAT, Block, Head, block_to_json, head_to_json
from milepost.state.store.format.names import digest_of_head
from milepost.state.store.updates import Row

METADATA_KEY = b"milepost.state"
BATCH_BYTES = 512 * 1024
"""The bytes of keys and values after which a record batch ends; it has one row at least."""

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


class Written(NamedTuple):
    """A file that is ready to be created: the digits for its name, and its content."""

    digest: str
    content: bytes


class Body(NamedTuple):
    """The record batches of a file, one behind the other, and where each lies."""

    messages: tuple[bytes, ...]
    blocks: tuple[Block, ...]

    @property
    def rows(self) -> int:
        """The number of rows in all of them."""
        return sum(block.rows for block in self.blocks)


def file_of(store: StateStoreId, head: Head, body: Body) -> Written:
    """Put a file together."""
    document = {
        "format": FORMAT,
        "store": {"operator": store.operator, "partition": store.partition, "name": store.name},
        "nonce": secrets.token_hex(16),
        **head_to_json(head),
        "batches": [block_to_json(block) for block in body.blocks],
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    start = SCHEMA.with_metadata({METADATA_KEY: text}).serialize().to_pybytes()
    return Written(digest_of_head(start), b"".join((start, *body.messages, _END_OF_STREAM)))


def bodies_of(rows: Iterable[Row], most_bytes: int | None = None) -> Iterator[Body]:
    """Turn sorted rows into bodies, each of about ``most_bytes`` of keys and values; into one if there is no limit.

    No rows make no body.
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
    """Turn all rows, if there are any, into one body."""
    return next(bodies_of(rows), Body((), ()))


def _message(rows: Sequence[Row]) -> bytes:
    """Return the message of a record batch, as Arrow writes it behind that of the schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=_OPTIONS) as writer:
        writer.write_batch(batch_of(rows))
    return bytes(memoryview(sink.getvalue())[len(_SCHEMA_MESSAGE) : -len(_END_OF_STREAM)])


_SCHEMA_MESSAGE = SCHEMA.serialize().to_pybytes()
