"""All that replicas ever wrote to their journal in ZooKeeper, as the transaction logs of its members have it.

ZooKeeper appends every transaction to a log before it counts, and the logs of these tests are never cleared away. So
they show also what was overwritten or deleted since. Their format is that of ``FileTxnLog``: a header of 16 bytes, and
for each transaction a checksum, its length, its bytes and an end mark; zeros follow the last one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from milepost_backends.zookeeper.pointers.layout import RECORDS, is_bucket
from milepost_server.model.records import decode
from tests.spark.clusters.written import Journal

_HEADER = struct.Struct(">4siq")
_PREFIX = struct.Struct(">qi")
_TRANSACTION = struct.Struct(">qiqqi")
_MAGIC, _END = b"ZKLG", b"B"
_CREATE, _SET_DATA, _MULTI, _CREATE_2 = 1, 5, 14, 15


class Transactions(Journal):
    """The journal that is kept by a ZooKeeper whose members have their files below ``directories``."""

    def __init__(self, directories: list[Path]) -> None:
        self._directories = directories

    def records(self) -> Iterator[tuple[str, object]]:
        writes: dict[int, list[tuple[str, bytes]]] = {}
        for directory in self._directories:
            for log in directory.glob("data/version-2/log.*"):
                writes |= dict(transactions(log.read_bytes()))
        for _, written in sorted(writes.items()):
            for path, value in written:
                key = _key(path)
                if key and value:
                    yield key, decode(key, value)


def transactions(log: bytes) -> Iterator[tuple[int, list[tuple[str, bytes]]]]:
    """The number of each transaction of a log, and which znodes it wrote, with their values."""
    magic, _, _ = _HEADER.unpack_from(log)
    assert magic == _MAGIC, "not a transaction log"
    at = _HEADER.size
    while at + _PREFIX.size <= len(log):
        _, length = _PREFIX.unpack_from(log, at)
        body = log[at + _PREFIX.size : at + _PREFIX.size + length]
        at += _PREFIX.size + length + len(_END)
        if not length or len(body) < length or log[at - 1 : at] != _END:
            return  # what follows has not been written, or not to its end
        _, _, number, _, kind = _TRANSACTION.unpack_from(body)
        yield number, list(_written(kind, body[_TRANSACTION.size :]))


def _written(kind: int, body: bytes) -> Iterator[tuple[str, bytes]]:
    if kind in (_CREATE, _CREATE_2, _SET_DATA):
        path, at = _buffer(body, 0)
        value, _ = _buffer(body, at)
        yield path.decode(), value
    elif kind == _MULTI:
        (count,) = struct.unpack_from(">i", body)
        at = 4
        for _ in range(count):
            (inner,) = struct.unpack_from(">i", body, at)
            part, at = _buffer(body, at + 4)
            yield from _written(inner, part)


def _buffer(body: bytes, at: int) -> tuple[bytes, int]:
    """The bytes that follow their length, -1 for none; and where they end."""
    (length,) = struct.unpack_from(">i", body, at)
    end = at + 4 + max(length, 0)
    return body[at + 4 : end], end


def _key(path: str) -> str | None:
    """The key of the record at a znode; None where there is none."""
    _, found, below = path.partition(f"/{RECORDS}/")
    names = below.split("/")
    if not found or len(names) < 2 or not is_bucket(names[-2]):
        return None
    return "/".join(name for name in names if not is_bucket(name))
