"""Reads files: nothing of one is used before it has proved to be what was written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from milepost.state.errors import InvalidUse, StateDamaged
from milepost.state.store.contract.ids import StateStoreId
from milepost.state.store.files.contract import StateFiles
from milepost.state.store.format.batches import ROWS_SCHEMA, SCHEMA, rows_of, rows_of_format_1
from milepost.state.store.format.heads import FORMAT, Block, Head, block_from_json, head_from_json
from milepost.state.store.format.names import StateFileName, digest_of_head
from milepost.state.store.format.writing import METADATA_KEY
from milepost.state.store.updates import Row

_FIRST_READ = 256 * 1024
_MOST_HEAD_BYTES = 1 << 30
_CONTINUATION = b"\xff\xff\xff\xff"


@dataclass(frozen=True)
class OpenedFile:
    """A file whose head is proved, and whose record batches are read and proved one at a time."""

    head: Head
    blocks: tuple[Block, ...]
    path: str
    _files: StateFiles
    _body_start: int
    _beginning: bytes
    _format: int

    def rows(self, start: bytes = b"", end: bytes | None = None) -> Iterator[Row]:
        """Iterate the rows from one key on and before another, reading only the record batches that may have some."""
        for batch in self.batches(start, end):
            if not batch or (batch[0][0] >= start and (end is None or batch[-1][0] < end)):
                yield from batch
            else:
                yield from (row for row in batch if row[0] >= start and (end is None or row[0] < end))

    def batches(self, start: bytes = b"", end: bytes | None = None) -> Iterator[list[Row]]:
        """Iterate the rows of each record batch that may have some of these keys. Raises `StateDamaged`."""
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
    """Read and prove the head of a file. Raises `FileMissing`, `StateDamaged`."""
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
        document = json.loads(pa.ipc.read_schema(pa.py_buffer(start)).metadata[METADATA_KEY])
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
