"""Reads all records of a journal in batches, with several batches in flight.

It uses ZooKeeper's multiRead (release 3.6 and later), which kazoo does not have. A request costs kazoo's thread about a
tenth of a millisecond, so that 100,000 separate reads would take ten seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kazoo.exceptions import EXCEPTIONS, NoAuthError, NoNodeError
from kazoo.protocol.serialization import (
    GetChildren,
    GetData,
    MultiHeader,
    int_struct,
    read_buffer,
    read_string,
    stat_struct,
)
from kazoo.protocol.states import ZnodeStat

from milepost_backends.contract import Change
from milepost_backends.zookeeper.connection import ZooKeeperConnection
from milepost_backends.zookeeper.errors import backend_error
from milepost_backends.zookeeper.pointers.layout import ZnodeLayout, is_bucket

log = logging.getLogger("milepost.zookeeper")

UNREADABLE: Final = b"ZooKeeper does not permit to read this"
"""The value in place of a record whose znode may not be read. No valid record has this value."""

_IN_FLIGHT: Final = 4

_AT_ONCE: Final = 64
"""The number of reads in one request. Even with values of the largest size, the answer is small enough for memory."""

_FAILED: Final = -1


@dataclass(frozen=True, slots=True)
class ZnodeContent:
    """One answer of a multiRead: the value of a znode, and the number of its children."""

    value: bytes
    children: int = 0


@dataclass(frozen=True, slots=True)
class Children:
    """One answer of a multiRead: the names of a znode's children."""

    names: Sequence[str]


Answer = ZnodeContent | Children | Exception


@dataclass(frozen=True, slots=True)
class MultiRead:
    """One multiRead request with many reads, in the form that kazoo sends. If one read fails, the others do not."""

    reads: Sequence[Any]
    type = 22

    @classmethod
    def values(cls, paths: Sequence[str]) -> MultiRead:
        """Return a request for the values of the znodes at these paths."""
        return cls([GetData(path, None) for path in paths])

    @classmethod
    def children(cls, paths: Sequence[str]) -> MultiRead:
        """Return a request for the children of the znodes at these paths."""
        return cls([GetChildren(path, None) for path in paths])

    def serialize(self) -> bytes:
        """Encode the request as the protocol requires: a header before each read, and a last header that ends the
        request.
        """
        parts = [MultiHeader(read.type, False, -1).serialize() + read.serialize() for read in self.reads]
        return b"".join([*parts, MultiHeader(-1, True, -1).serialize()])

    def deserialize(self, data: bytes, offset: int) -> list[Answer]:
        """Return the answers in ``data``, decoded: one for each read of this request, in order."""
        answers: list[Answer] = []
        header, offset = MultiHeader.deserialize(data, offset)
        while not header.done:
            answer, offset = _answer(header.type, data, offset)
            answers.append(answer)
            header, offset = MultiHeader.deserialize(data, offset)
        if len(answers) != len(self.reads):
            raise ValueError(f"{len(answers)} answers to {len(self.reads)} reads")
        return answers


def _answer(kind: int, data: bytes, offset: int) -> tuple[Answer, int]:
    if kind == GetData.type:
        value, offset = read_buffer(data, offset)
        stat = ZnodeStat._make(stat_struct.unpack_from(data, offset))
        return ZnodeContent(value or b"", stat.numChildren), offset + stat_struct.size
    if kind == GetChildren.type:
        count = int_struct.unpack_from(data, offset)[0]
        offset += int_struct.size
        names = []
        for _ in range(count):
            name, offset = read_string(data, offset)
            names.append(name)
        return Children(names), offset
    if kind == _FAILED:
        return EXCEPTIONS[int_struct.unpack_from(data, offset)[0]](), offset + int_struct.size
    raise ValueError(f"an answer of kind {kind} to a read")


class Walk:
    """Reads all records of a journal once, and remembers in `present` which znodes exist.

    A record that another program changed does not affect the others. `strange` has, for each path of a record, the
    znodes that other programs made below it, each after its parent: they must be deleted before the record can be.
    """

    def __init__(self, connection: ZooKeeperConnection, layout: ZnodeLayout) -> None:
        self.present: list[str] = [layout.records]
        self.strange: defaultdict[str, list[str]] = defaultdict(list)
        self._record_above: dict[str, str] = {}
        self._connection = connection
        self._layout = layout
        self._directories: deque[str] = deque([layout.records])
        self._records: deque[str] = deque()
        self._reading: deque[tuple[list[str], asyncio.Task[list[Answer]]]] = deque()

    async def records(self) -> AsyncGenerator[Change, None]:
        """Yield every record of the journal. Records that are deleted meanwhile are left out.

        The caller then reads the stored head again, and compares it with the one before, which shows whether the
        journal was changed.
        """
        try:
            while self._go_on():
                paths, reading = self._reading[0]
                answers = await reading
                self._reading.popleft()
                for path, answer in zip(paths, answers, strict=True):
                    if isinstance(answer, Children):
                        self._descend(path, answer)
                    elif isinstance(answer, ZnodeContent):
                        if self._belongs(path):
                            yield self._record(path, answer)
                    elif isinstance(answer, NoAuthError) and self._is_single(path):
                        log.error("cannot read %s: ZooKeeper does not permit it", path)
                        if path not in self._record_above and self._belongs(path):
                            yield self._record(path, ZnodeContent(UNREADABLE))
                    elif not isinstance(answer, NoNodeError):
                        raise backend_error(answer, f"read {path}") from answer
        finally:
            for _, reading in self._reading:
                reading.cancel()
            await asyncio.gather(*(reading for _, reading in self._reading), return_exceptions=True)

    def _go_on(self) -> bool:
        """Send more requests, as many as may be in flight at once. Return whether any is in flight."""
        while len(self._reading) < _IN_FLIGHT and (self._directories or self._records):
            waiting = self._directories or self._records
            paths = [waiting.popleft() for _ in range(min(_AT_ONCE, len(waiting)))]
            request = MultiRead.children(paths) if waiting is self._directories else MultiRead.values(paths)
            self._reading.append((paths, asyncio.create_task(self._read(request))))
        return bool(self._reading)

    async def _read(self, request: MultiRead) -> list[Answer]:
        answers: list[Answer] = await self._connection.ask(
            f"load {self._layout.journal!r}", lambda client: client.send(request)
        )
        return answers

    def _descend(self, path: str, children: Children) -> None:
        paths = [f"{path}/{name}" for name in children.names]
        record = self._record_above.get(path)
        if record is not None:
            self.strange[record].extend(paths)
            self._record_above.update(dict.fromkeys(paths, record))
            self._directories.extend(paths)
            return
        self.present.extend(paths)
        if is_bucket(path.rpartition("/")[2]):
            self._records.extend(paths)
        else:
            self._directories.extend(paths)

    def _record(self, path: str, found: ZnodeContent) -> Change:
        if found.children:
            log.error("the record %s has znodes below it, which are deleted when the record is removed", path)
            self._record_above[path] = path
            self._directories.append(path)
        bucket, _, name = path.rpartition("/")
        return Change(self._layout.key(bucket.rpartition("/")[0], name), found.value)

    def _belongs(self, path: str) -> bool:
        """Return whether the znode at ``path``, a record, is in the bucket that the hash of its name gives.

        In another bucket it is ignored: it could hide a record.
        """
        bucket, _, name = path.rpartition("/")
        if self._layout.record(self._layout.key(bucket.rpartition("/")[0], name)) == path:
            return True
        log.error("%s is not in the bucket of its name, so another program put it there; it is ignored", path)
        return False

    def _is_single(self, path: str) -> bool:
        """Return whether ``path`` is that of a record, or below one.

        Any other znode may contain any number of records.
        """
        return path in self._record_above or is_bucket(path.split("/")[-2])
