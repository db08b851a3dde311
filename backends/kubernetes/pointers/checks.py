"""The check of a journal that this process leads: what others' hands did to its ConfigMaps is put right.

Groups meet only what was done to the last segment. Nobody else would miss a sealed one, the witness, or the empty one
that comes next, before a take-over does; and that needs all of them.

What is found is read before the witness is, and written over on the version found, as `kubernetes_repair` says. So
groups may go on meanwhile: the turn is taken for the writes alone, and for the last segment, whose reads are repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace

from backends.contract import BackendError, Commit, CommitRefused, Head, Misconfigured, Refusal, StorageFull
from backends.kubernetes.configmaps.chain import Segment
from backends.kubernetes.configmaps.head import EMPTY, SegmentState, decode
from backends.kubernetes.configmaps.maps import Maps
from backends.kubernetes.configmaps.memory import ChainMemory
from backends.kubernetes.configmaps.objects import HEAD, ConfigMap, Metadata
from backends.kubernetes.configmaps.stamps import note, read
from backends.kubernetes.pointers.repair import delete, deposed, repair, restored, rewrite

log = logging.getLogger("milepost.kubernetes")


class Checks:
    """Of one journal. Groups hold ``turn``; ``stands`` tells whether its memory still proves anything."""

    def __init__(self, maps: Maps, memory: ChainMemory, turn: asyncio.Lock, stands: Callable[[], bool]) -> None:
        self.deposed = False
        """Whether another leader was found."""
        self._maps = maps
        self._memory = memory
        self._turn = turn
        self._stands = stands
        self._dropped: Collection[str] = ()
        """What was to be deleted, as of the last check."""

    async def run(self) -> None:
        """Compare what is listed with what was left, and put it right. Raises `BackendError`.

        What the API server denies, or has no room for, keeps nothing else from it.
        """
        memory, layout = self._memory, self._memory.layout
        left = {number: segment.metadata.resource_version for number, segment in memory.segments.items()}
        spare = memory.spare
        listed = {item.metadata.name: item for item in await self._maps.listed(layout.labels, data=False)}
        denied: list[BackendError] = []
        await _unless_denied(self._look_at_stamps(listed), denied)
        if not self._leads():
            return
        if spare is not None and not _is_at(listed.get(layout.segment(spare.number)), spare.metadata.resource_version):
            await _unless_denied(self._look_at_spare(spare), denied)
        for number, version in left.items():
            if not _is_at(listed.get(layout.segment(number)), version):
                await _unless_denied(self._look_at(number, version), denied)
        oldest = memory.first
        dropped = {name: item.metadata for name, item in listed.items() if (layout.number(name) or oldest) < oldest}
        memory.dropped, memory.left = list(dropped.values()), len(dropped.keys() & self._dropped)
        self._dropped = dropped.keys()
        if denied:
            raise denied[0]

    async def _look_at_stamps(self, listed: Mapping[str, ConfigMap]) -> None:
        """Write the witness and the founding mark again where they do not name this leader, though the head does.

        Nobody has taken over, then, but who does so just now, before its first group: it writes them after us.
        """
        memory, layout = self._memory, self._memory.layout
        revision, wrong = memory.head.revision, []
        for last in (memory.witness, memory.mark):
            found = await read(self._maps, last.name)
            told = found.told
            if told is not None and not told.is_of(memory.head) and told.term >= memory.head.term:
                memory.is_past |= memory.is_behind(told)
                self._not_put_right(last.name, CommitRefused(Refusal.HEAD_MOVED, f"term {told.term} leads"))
                return
            marked = last is memory.mark or (found.metadata or Metadata()).labels.items() >= layout.labels.items()
            if told is None or not told.is_of(memory.head) or not marked:
                wrong.append(replace(found, told=None))
        if not wrong:
            return
        head = await stored_head(self._maps, memory)
        is_ahead = any((layout.number(other) or 0) > memory.last + 1 for other in listed)
        names = " and ".join(found.name for found in wrong)
        if is_ahead or head is None or not _same(head, memory.head) or head.revision < revision:
            is_later = head is not None and head.term > memory.head.term
            memory.is_past |= is_later and head is not None and head.revision > memory.head.revision
            reason = Refusal.HEAD_MOVED if is_later else Refusal.FAILED
            self._not_put_right(names, CommitRefused(reason, f"the journal's head is not ours any more: {head}"))
            return
        for found in wrong:
            if self._leads():
                log.warning("the ConfigMap %s was deleted or changed by somebody; it is written again", found.name)
                noted = await note(self._maps, layout, found, memory.head)
                if found.name == memory.mark.name:
                    memory.mark = noted
                else:
                    memory.witness = noted

    async def _look_at_spare(self, spare: Segment) -> None:
        """Empty the next segment again; if it is gone, have it made anew. Nothing was lost with it."""
        memory, left = self._memory, spare.metadata.resource_version
        name = memory.layout.segment(spare.number)
        found = await self._maps.read(name, data=True)
        if _is_at(found, left) or await self._is_deposed(name):
            return
        async with self._turn:
            if not self._leads() or memory.spare is not spare or spare.metadata.resource_version != left:
                return
            if found is None or not self._is_ours(found, spare.metadata.uid):
                log.warning("the ConfigMap %s, empty as yet, was deleted by somebody; it is made anew", name)
                memory.spare = None
                return
            if found.immutable:
                await delete(self._maps, found)
                memory.spare = None
                return
            if decode(found.metadata.annotations.get(HEAD), name) is not EMPTY or found.data:
                log.warning("the ConfigMap %s, empty as yet, was changed by somebody; it is put right", name)
            spare.metadata = found.metadata.check()
            await rewrite(self._maps, memory, spare)

    async def _look_at(self, number: int, left: str) -> None:
        """Look closer at a segment that was not at the version ``left``, and write it again."""
        memory, name = self._memory, self._memory.layout.segment(number)
        segment = memory.segments.get(number)
        if segment is None or segment.metadata.resource_version != left:
            return  # a group landed meanwhile, no more: it would have met what was done
        found = await self._maps.read(name, data=True)
        is_last = number == memory.last
        if _is_at(found, left) or (not is_last and await self._is_deposed(name)):
            return
        async with self._turn:
            is_left = memory.segments.get(number) is segment and segment.metadata.resource_version == left
            if not is_left or not self._leads():
                return
            if is_last:
                end = await repair(self._maps, memory, segment)
                if end is not None:
                    self._not_put_right(name, end)
                    return
            else:
                await restored(self._maps, memory, segment, found)
            await rewrite(self._maps, memory, segment)

    # -- within ----------------------------------------------------------------------------------------------------

    def _leads(self) -> bool:
        return self._stands() and not self.deposed

    async def _is_deposed(self, name: str) -> bool:
        """Whether nothing may be put right, now that this was read."""
        if not self._leads():
            return True
        end = await deposed(self._maps, self._memory)
        if end is not None:
            self._not_put_right(name, end)
        return end is not None

    def _not_put_right(self, name: str, end: Commit) -> None:
        log.warning("the ConfigMap %s is not put right: %s", name, end)
        self.deposed |= isinstance(end, CommitRefused) and end.reason is Refusal.HEAD_MOVED

    def _is_ours(self, found: ConfigMap, uid: str) -> bool:
        """Whether it is the object that we wrote, whatever became of its labels, or carries our labels."""
        labels: Mapping[str, str] = self._memory.layout.labels
        return found.metadata.uid == uid or found.metadata.labels.items() >= labels.items()


async def stored_head(maps: Maps, memory: ChainMemory) -> Head | None:
    """The head as it is stored, from the segment on that took the last group known of; None: not to be found there."""
    number, head = memory.last, None
    if memory.tail.head.state is SegmentState.EMPTY and number > memory.first:
        number -= 1
    while True:
        name = memory.layout.segment(number)
        found = await maps.read(name, data=False)
        told = None if found is None else decode(found.metadata.annotations.get(HEAD), name)
        if told is None or told.state is SegmentState.EMPTY:
            return head
        head = told.of(memory.layout.journal)
        if told.state is not SegmentState.SEALED:
            return head
        number = told.next


async def _unless_denied(look: Awaitable[None], denied: list[BackendError]) -> None:
    try:
        await look
    except (Misconfigured, StorageFull) as error:
        denied.append(error)


def _is_at(found: ConfigMap | None, version: str) -> bool:
    return found is not None and found.metadata.resource_version == version


def _same(one: Head, other: Head) -> bool:
    return (one.term, one.lineage) == (other.term, other.lineage)
