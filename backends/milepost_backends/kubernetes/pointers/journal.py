"""Leads one journal: writes its groups one after another, and keeps the chain in order between them.

Background tasks make the next segment, delete segments that no longer count, record the latest group in the witness,
and repair changes that other programs made to the ConfigMaps. Their failures are harmless, and they are retried. A
group waits for the next segment only if the last one is full, and for a repair only while that is being written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from milepost_backends.contract import BackendError, Change, Commit, CommitRefused, Head, Refusal, Unknown
from milepost_backends.kubernetes.configmaps.maps import Maps
from milepost_backends.kubernetes.configmaps.memory import ChainMemory
from milepost_backends.kubernetes.configmaps.stamps import note
from milepost_backends.kubernetes.pointers.checks import Checks
from milepost_backends.kubernetes.pointers.write import commit, make_spare

log = logging.getLogger("milepost.kubernetes")


_AGAIN_SECONDS: Final = 1.0
_WITNESS_SECONDS: Final = 0.5
"""The seconds by which the witness may be behind the groups. It is not written for each group, to save bytes in
etcd.
"""
_WITNESS_AGAIN_SECONDS: Final = 5.0
_FLUSH_SECONDS: Final = 2.0


class ConfigMapJournal:
    """A journal in ConfigMaps that this process leads. ``turn`` is the lock under which groups are written."""

    def __init__(self, maps: Maps, memory: ChainMemory, turn: asyncio.Lock) -> None:
        self.memory = memory
        self.stands = True
        """Whether ``memory`` is known to be current: False once the outcome of a group is unknown, or another process
        leads.
        """
        self._maps = maps
        self._checks = Checks(maps, memory, turn, lambda: self.stands)
        self._closed = False
        self._spare: asyncio.Task[None] | None = None
        self._spare_not_before = 0.0
        self._spare_fails = False
        self._sweep: asyncio.Task[None] | None = None
        self._witness: asyncio.Task[None] | None = None
        self._keep_up()

    async def commit(self, changes: Sequence[Change], after: Head) -> Commit:
        """Write a group, which follows the head in `memory` and leaves the head ``after``; see `PointerStore.commit`.

        The caller must hold the lock ``turn``.
        """
        try:
            end = await commit(self._maps, self.memory, changes, after, self._spare_made)
        except BaseException:
            self.stands = False  # even after a cancellation the group may be committed: its request may have been sent
            raise
        lost = isinstance(end, CommitRefused) and end.reason is Refusal.HEAD_MOVED
        self.stands = not lost and not isinstance(end, Unknown) and not self._closed
        self._keep_up()
        if self.stands and (self._witness is None or self._witness.done()):
            self._witness = asyncio.create_task(self._keep_witness())
        return end

    async def check(self) -> None:
        """Restore, from memory, ConfigMaps of this journal that other programs changed. Raises `BackendError`."""
        await self._checks.run()
        if self._checks.deposed:
            self.stands = False
        self._keep_up()

    async def flush(self) -> None:
        """Record the last group in the witness, but give up after two seconds."""
        if not self.stands or self._witness is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._note()

    async def close(self) -> None:
        """End the background tasks of this journal. None is started again, even if a group that was sent ends later."""
        self.stands = False
        self._closed = True
        tasks = [task for task in (self._spare, self._sweep, self._witness) if task is not None]
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    # -- in the background -----------------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        if not self.stands:
            return
        idle = self._spare is None or self._spare.done()
        if self.memory.spare is None and idle and asyncio.get_running_loop().time() >= self._spare_not_before:
            self._spare = asyncio.create_task(self._make_spare())
        if self.memory.dropped and (self._sweep is None or self._sweep.done()):
            self._sweep = asyncio.create_task(self._delete_dropped())

    async def _keep_witness(self) -> None:
        """Record the journal's latest revision in the witness, until the witness has it. This task pauses before each
        write.
        """
        pause = _WITNESS_SECONDS
        while self.stands and not self._is_recorded():
            await asyncio.sleep(pause)
            pause = _WITNESS_SECONDS if await self._note() else _WITNESS_AGAIN_SECONDS

    async def _note(self) -> bool:
        memory = self.memory
        if not self.stands or self._is_recorded():
            return True
        try:
            memory.witness = await note(self._maps, memory.layout, memory.witness, memory.head)
        except BackendError as error:
            log.warning("cannot write the witness %s now, which falls behind: %s", memory.witness.name, error)
            return False
        return True

    def _is_recorded(self) -> bool:
        recorded, head = self.memory.witness.recorded, self.memory.head
        return recorded is not None and recorded.is_of(head) and recorded.revision >= head.revision

    async def _spare_made(self) -> None:
        """Wait while the next segment is being made, unless the last attempt to make one failed."""
        if self.memory.spare is None and self._spare is not None and not self._spare_fails:
            await asyncio.wait([self._spare])

    async def _make_spare(self) -> None:
        try:
            await make_spare(self._maps, self.memory)
            self._spare_fails = False
        except BackendError as error:
            self._spare_fails = True
            self._spare_not_before = asyncio.get_running_loop().time() + _AGAIN_SECONDS
            log.warning("cannot make the next segment of %r, and try again: %s", self.memory.layout.journal, error)

    async def _delete_dropped(self) -> None:
        """Delete the ConfigMaps of the segments in `ChainMemory.dropped`, which no longer count.

        If that fails, the segment stays as garbage until the next check or take-over finds it.
        """
        while self.memory.dropped:
            metadata = self.memory.dropped.pop()
            try:
                answer = await self._maps.delete(metadata)
            except BackendError as error:
                log.warning("cannot delete the ConfigMap %s, and try again later: %s", metadata.name, error)
                continue
            if answer.refusal is Refusal.DENIED and not answer.done:
                count, self.memory.dropped = len(self.memory.dropped) + 1, []  # until the next check, which tries again
                log.error("cannot delete %d ConfigMaps that no longer count, and etcd keeps them: %s", count, answer)
            elif not answer.done and answer.status != 404:
                log.warning("cannot delete the ConfigMap %s, and try again later: %s", metadata.name, answer)
