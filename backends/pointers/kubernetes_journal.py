"""One journal that this process leads: its groups one after another, and between them what keeps the chain in order.

In the background the next segment is made, segments that no longer count are deleted, and what others' hands did to
the ConfigMaps is put right. None of it holds a group up, nor matters if it fails: it is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from backends.contract import BackendError, Change, Commit, Head, Refusal, Refused, Unknown
from backends.pointers.kubernetes_head import State, decode
from backends.pointers.kubernetes_maps import Maps
from backends.pointers.kubernetes_memory import Memory
from backends.pointers.kubernetes_objects import HEAD
from backends.pointers.kubernetes_repair import adopt, deposed, put_back, repair, rewrite
from backends.pointers.kubernetes_write import commit, make_spare

log = logging.getLogger("milepost.kubernetes")


_AGAIN_SECONDS: Final = 1.0


class Journal:
    """A journal under the head that this process took over, or found to be its own; ``turn`` is held by each group."""

    def __init__(self, maps: Maps, memory: Memory, turn: asyncio.Lock) -> None:
        self.memory = memory
        self.stands = True
        """False once the outcome of a group is not known, or another leads: then memory proves nothing."""
        self._maps = maps
        self._turn = turn
        self._spare: asyncio.Task[None] | None = None
        self._spare_not_before = 0.0
        self._sweep: asyncio.Task[None] | None = None
        self._keep_up()

    async def commit(self, changes: Sequence[Change], revision: int) -> Commit:
        """See `PointerStore.commit`; under the head in `memory`, and by whoever has the turn."""
        try:
            end = await commit(self._maps, self.memory, changes, revision, self._spare_made)
        except BaseException:
            self.stands = False  # also when this task is cancelled: what was sent goes its way
            raise
        lost = isinstance(end, Refused) and end.reason is Refusal.HEAD_MOVED
        self.stands = not lost and not isinstance(end, Unknown)
        if self.stands:
            self._keep_up()
        return end

    async def check(self) -> None:
        """Put right what somebody did to the segments that count. Raises `BackendError`."""
        layout = self.memory.layout
        listed = {item.metadata.name: item for item in await self._maps.listed(layout.labels, data=False)}
        for number, segment in list(self.memory.segments.items()):
            found = listed.pop(layout.segment(number), None)
            if found is None or found.metadata.resource_version != segment.metadata.resource_version:
                await self._look_at(number)
        oldest = self.memory.first
        self.memory.dropped = [
            item.metadata for name, item in listed.items() if (layout.number(name) or oldest) < oldest
        ]
        self._keep_up()

    async def close(self) -> None:
        """End what goes on in the background."""
        self.stands = False
        tasks = [task for task in (self._spare, self._sweep) if task is not None]
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _look_at(self, number: int) -> None:
        """Look closer at a segment that is not as it was left, and write it again; groups wait meanwhile."""
        async with self._turn:
            segment = self.memory.segments.get(number)
            if segment is None or not self.stands:
                return
            name = self.memory.layout.segment(number)
            found = await self._maps.read(name, data=True)
            if found is not None and found.metadata.resource_version == segment.metadata.resource_version:
                return  # a group landed meanwhile, no more
            is_last = number == self.memory.last
            end = await (repair(self._maps, self.memory, segment) if is_last else deposed(self._maps, self.memory))
            if end is not None:
                log.warning("the ConfigMap %s is not put right: %s", name, end)
                self.stands = not (isinstance(end, Refused) and end.reason is Refusal.HEAD_MOVED)
                return
            if not is_last and found is None:
                await put_back(self._maps, self.memory, segment)
            elif not is_last and found is not None:
                adopt(segment, found)
            await rewrite(self._maps, self.memory, segment)

    # -- in the background -----------------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        idle = self._spare is None or self._spare.done()
        if self.memory.spare is None and idle and asyncio.get_running_loop().time() >= self._spare_not_before:
            self._spare = asyncio.create_task(self._make_spare())
        if self.memory.dropped and (self._sweep is None or self._sweep.done()):
            self._sweep = asyncio.create_task(self._delete_dropped())

    async def _spare_made(self) -> None:
        """Wait for the next segment if it is just being made."""
        if self.memory.spare is None and self._spare is not None:
            await asyncio.wait([self._spare])

    async def _make_spare(self) -> None:
        try:
            await make_spare(self._maps, self.memory)
        except BackendError as error:
            self._spare_not_before = asyncio.get_running_loop().time() + _AGAIN_SECONDS
            log.warning("the next segment of %r is not made yet: %s", self.memory.layout.journal, error)

    async def _delete_dropped(self) -> None:
        """What cannot be deleted is garbage until the next take-over."""
        while self.memory.dropped:
            metadata = self.memory.dropped.pop()
            try:
                answer = await self._maps.delete(metadata)
            except BackendError as error:
                log.warning("the ConfigMap %s is not deleted yet: %s", metadata.name, error)
                continue
            if not answer.done and answer.status != 404:
                log.warning("the ConfigMap %s is not deleted yet: %s", metadata.name, answer)


async def stored_head(maps: Maps, memory: Memory) -> Head | None:
    """The head as it is stored, from the segment on that took the last group known of; None: not to be found there."""
    number, head = memory.last, None
    if memory.tail.head.state is State.EMPTY and number > memory.first:
        number -= 1
    while True:
        found = await maps.read(memory.layout.segment(number), data=False)
        told = None if found is None else decode(found.metadata.annotations.get(HEAD), number)
        if told is None or told.state is State.EMPTY:
            return head
        head = told.of(memory.layout.journal)
        if told.state is not State.SEALED:
            return head
        number = told.next
