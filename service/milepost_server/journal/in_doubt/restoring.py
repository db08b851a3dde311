"""Write back from memory the records that another process changed in the pointer store while this process led.

The records are written in groups, and each commit has its own deadline. If the pointer store denies a group, the group
is halved until the denied records are found, and all other records are written. A denied record stays wrong in the
pointer store, and right in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain

from milepost_backends.contract import (
    Change,
    CommitRefused,
    Done,
    GroupLimits,
    Head,
    PointerStore,
    Refusal,
    StorageUnavailable,
)
from milepost_server.journal.interface import JournalObserver
from milepost_server.journal.loading import Loaded
from milepost_server.journal.proof import UNKNOWN, Proof, Replaced
from milepost_server.memory.state import State
from milepost_server.model.records import Corrupt, Record, encode

log = logging.getLogger("milepost.journal")

_SHOWN = 10
_CHUNK = 500
_UNWRITABLE = (Refusal.DENIED, Refusal.TOO_LARGE)


class Restoring:
    """Writes to the pointer store ``store`` what differs from the records of ``state``, whose hashes are in ``proof``.

    A record that is damaged in the pointer store and unknown in memory stays in the pointer store, and is added to
    ``state``. A record that was already damaged in memory stays damaged, unless its right content was put back.
    Restoring does not change records of other programs, nor records of a kind that this release does not know.

    ``moved`` is called with the head after each commit, and with the unchanged head after a refusal that can be
    handled; it raises an exception to stop the work. ``observer`` is told of records that were put back or added in the
    pointer store, once they are in ``state``. ``unwritten`` has the keys of records that the pointer store denied, and
    ``found`` is whether any record of ``state`` was changed.
    """

    def __init__(
        self,
        store: PointerStore,
        state: State,
        proof: Proof,
        commit_seconds: float,
        moved: Callable[[Head], None],
        observer: JournalObserver,
    ) -> None:
        self._store = store
        self._state = state
        self._proof = proof
        self._commit_seconds = commit_seconds
        self._moved = moved
        self._observer = observer
        self._before: Replaced = {}
        self.unwritten: list[str] = []
        self.found = False

    async def restore(self, head: Head, found: Loaded) -> Head:
        """Write back the records that differ from those ``found`` under ``head``, and return the head after the writes.

        Raises `StorageUnavailable`, TimeoutError, and what the function ``moved`` of the constructor raises.
        """
        to_write = [key async for key in self._differing(found) if self._must_be_written(key, found)]
        if to_write:
            log.error(
                "%d records of journal %s were changed by another program while this replica led; they are written back"
                " from memory: %s",
                len(to_write),
                head.journal,
                ", ".join(to_write[:_SHOWN]),
            )
        self._before = {}
        self.unwritten = []
        for count, key in enumerate(to_write):
            self._before |= self._proof.apply([(key, self._change(key).value)])
            if count % _CHUNK == 0:
                await asyncio.sleep(0)
        for group in _groups(map(self._change, to_write), self._store.limits):
            head = await self._write(head, group)
        if head.digest != self._proof.digest:
            head = await self._write(head, [])
        if self.unwritten:
            log.error(
                "%d records of journal %s could not be written back: they are served from memory while this replica"
                " leads, and will be damaged for the next one: %s",
                len(self.unwritten),
                head.journal,
                ", ".join(self.unwritten[:_SHOWN]),
            )
        return head

    async def _differing(self, found: Loaded) -> AsyncIterator[str]:
        """Yield the keys under which memory and pointer store may differ.

        They are not sorted, since sorting many keys would block the event loop.
        """
        keys = dict.fromkeys((*self._state.damaged(), *found.state.damaged()))
        for count, key in enumerate(chain(self._proof.hashes, found.proof.hashes)):
            if self._proof.hashes.get(key) != found.proof.hashes.get(key):
                keys[key] = None
            if count % _CHUNK == 0:
                await asyncio.sleep(0)
        for count, key in enumerate(keys):
            yield key
            if count % _CHUNK == 0:
                await asyncio.sleep(0)

    def _must_be_written(self, key: str, found: Loaded) -> bool:
        """Return whether the record under ``key`` must be written or deleted; if not, make the memory agree with the
        pointer store.
        """
        record, there = self._state.get(key), found.state.get(key)
        known, sealed = self._proof.hashes.get(key), found.proof.hashes.get(key)
        if record is not None and not isinstance(record, Corrupt):
            return known != sealed
        if record is None and sealed is not None and not isinstance(there, Corrupt):
            return True
        # memory never had this record: it is damaged, of a newer release, or of another program
        if known is None:
            self._proof.count([(key, found.damaged.get(key, sealed))])
            self._take_in(key, there)
        elif sealed is not None and known in (UNKNOWN, sealed):
            if known == UNKNOWN:
                self._proof.mark_known(key, sealed)
            self._take_in(key, there)
        elif sealed is not None:
            log.error(
                "the record %s was damaged, and what another program put in its place is not its last content;"
                " it stays damaged",
                key,
            )
        return False

    def _take_in(self, key: str, there: Record | None) -> None:
        self.found = True
        self._state.apply([(key, there)])
        if there is not None:
            self._observer.found(key, there)

    def _change(self, key: str) -> Change:
        record = self._state.get(key)
        assert not isinstance(record, Corrupt)
        return Change(key, None if record is None else encode(key, record))

    async def _write(self, head: Head, group: list[Change]) -> Head:
        """Commit the group, except for its records that the pointer store denies, and return the head after the
        commits.
        """
        waiting = [group]
        while waiting:
            group = waiting.pop()
            async with asyncio.timeout(self._commit_seconds):
                outcome = await self._store.commit(head, group, head.revision + 1, self._proof.digest)
            if isinstance(outcome, Done):
                head = outcome.head
            elif not group or not isinstance(outcome, CommitRefused) or outcome.reason not in _UNWRITABLE:
                raise StorageUnavailable(f"records could not be written back: {outcome.detail}")
            elif len(group) == 1:
                self._leave(group[0].key, outcome.detail)
            else:
                half = len(group) // 2
                waiting += [group[half:], group[:half]]
            self._moved(head)
        return head

    def _leave(self, key: str, why: str) -> None:
        log.error("the record %s could not be written back: %s", key, why)
        self._proof.put_back({key: self._before[key]})
        self.unwritten.append(key)


def _groups(changes: Iterator[Change], limits: GroupLimits) -> Iterator[list[Change]]:
    """Yield the changes in groups that are within the limits of the pointer store."""
    group: list[Change] = []
    size = 0
    for change in changes:
        length = len(change.key) + len(change.value or b"")
        if group and (len(group) >= limits.requests or size + length > limits.bytes):
            yield group
            group, size = [], 0
        group.append(change)
        size += length
    if group:
        yield group
