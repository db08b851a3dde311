"""Read all records of a journal in batches, with several batches on their way."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncGenerator
from typing import Final

from kazoo.exceptions import NoAuthError, NoNodeError

from milepost_backends.contract import Change
from milepost_backends.zookeeper.connection import ZooKeeperConnection
from milepost_backends.zookeeper.errors import backend_error
from milepost_backends.zookeeper.pointers.layout import ZnodeLayout, is_bucket
from milepost_backends.zookeeper.reading import AT_ONCE, Answer, Children, MultiRead, ZnodeContent

log = logging.getLogger("milepost.zookeeper")

UNREADABLE: Final = b"ZooKeeper does not permit to read this"
"""This is returned in place of a record that may not be read: no valid record looks like it."""

_IN_FLIGHT: Final = 4


class Walk:
    """A walk reads everything below a journal's records once, and remembers in `present` what it found.

    What somebody else did to a single record affects no other. Nothing belongs below a record; what lies there all the
    same is remembered in `strange`, each znode after its parent, since it has to go before the record can.
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
        """Yield every record. What vanishes meanwhile is left out: the head shows at the end whether that matters."""
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
        """Send more requests; return whether any is on its way."""
        while len(self._reading) < _IN_FLIGHT and (self._directories or self._records):
            waiting = self._directories or self._records
            paths = [waiting.popleft() for _ in range(min(AT_ONCE, len(waiting)))]
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
        """Return whether the znode is where its key belongs: elsewhere it is no record, but might pass for one."""
        bucket, _, name = path.rpartition("/")
        if self._layout.record(self._layout.key(bucket.rpartition("/")[0], name)) == path:
            return True
        log.error("%s is not in the bucket of its name, so somebody else put it there; it is ignored", path)
        return False

    def _is_single(self, path: str) -> bool:
        """Return whether this is a record, or below one; any other znode may hold any number of records."""
        return path in self._record_above or is_bucket(path.split("/")[-2])
