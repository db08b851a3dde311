"""Checks the ConfigMaps of a journal that this process leads, and undoes changes that other programs made to them.

Writing a group detects changes to the last segment only. Without this check, the loss of a sealed segment, of the
witness or of the empty next segment would go unnoticed until a take-over, which needs all of them.

The check reads a changed ConfigMap before the witness, and its write is conditional on the version that it read, see
`milepost_backends.kubernetes.pointers.repair`. So groups may be written during the check. It holds the lock of the
journal only for its own writes, and for the last segment, which it reads again under the lock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace

from milepost_backends.contract import BackendError, Commit, CommitRefused, Head, Misconfigured, Refusal, StorageFull
from milepost_backends.kubernetes.configmaps.chain import Segment
from milepost_backends.kubernetes.configmaps.head import EMPTY, SegmentState, decode
from milepost_backends.kubernetes.configmaps.maps import Maps
from milepost_backends.kubernetes.configmaps.memory import ChainMemory
from milepost_backends.kubernetes.configmaps.objects import HEAD, ConfigMap, Metadata
from milepost_backends.kubernetes.configmaps.stamps import note, read
from milepost_backends.kubernetes.pointers.repair import delete, deposed, repair, restore, rewrite

log = logging.getLogger("milepost.kubernetes")


class Checks:
    """Checks the ConfigMaps of one journal that this process leads, and repairs those that other programs changed.

    ``turn`` is the lock under which groups are written. ``stands`` returns whether the leader's memory of the journal
    is still known to be current.
    """

    def __init__(self, maps: Maps, memory: ChainMemory, turn: asyncio.Lock, stands: Callable[[], bool]) -> None:
        self.deposed = False
        """Whether a check has found that another process leads the journal."""
        self._maps = maps
        self._memory = memory
        self._turn = turn
        self._stands = stands
        self._dropped: Collection[str] = ()
        """The names of the segments that were due for deletion at the last check."""

    async def run(self) -> None:
        """Compare the stored ConfigMaps with this leader's last writes, and restore what other programs changed.

        If the API server denies one repair, or etcd has no space for it, the other repairs are still made. Raises
        `BackendError`.
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
        memory.dropped, memory.undeleted = list(dropped.values()), len(dropped.keys() & self._dropped)
        self._dropped = dropped.keys()
        if denied:
            raise denied[0]

    async def _look_at_stamps(self, listed: Mapping[str, ConfigMap]) -> None:
        """Write the witness and the deployment marker again, if they do not name this leader although the stored head
        does.

        Such a head shows that no other leader has taken over, except one that is doing so now. That leader will write
        the witness and the marker before its first group, and so after this write.
        """
        memory, layout = self._memory, self._memory.layout
        revision, wrong = memory.head.revision, []
        for last in (memory.witness, memory.mark):
            found = await read(self._maps, last.name)
            recorded = found.recorded
            if recorded is not None and not recorded.is_of(memory.head) and recorded.term >= memory.head.term:
                memory.is_superseded |= memory.is_behind(recorded)
                self._log_unrepaired(last.name, CommitRefused(Refusal.HEAD_MOVED, f"term {recorded.term} leads"))
                return
            marked = last is memory.mark or (found.metadata or Metadata()).labels.items() >= layout.labels.items()
            if recorded is None or not recorded.is_of(memory.head) or not marked:
                wrong.append(replace(found, recorded=None))
        if not wrong:
            return
        head = await stored_head(self._maps, memory)
        is_ahead = any((layout.number(other) or 0) > memory.last + 1 for other in listed)
        names = " and ".join(found.name for found in wrong)
        if is_ahead or head is None or not _same(head, memory.head) or head.revision < revision:
            is_later = head is not None and head.term > memory.head.term
            memory.is_superseded |= is_later and head is not None and head.revision > memory.head.revision
            reason = Refusal.HEAD_MOVED if is_later else Refusal.FAILED
            self._log_unrepaired(names, CommitRefused(reason, f"the journal's head is not ours any more: {head}"))
            return
        for found in wrong:
            if self._leads():
                log.warning("another program deleted or changed the ConfigMap %s; it is written again", found.name)
                noted = await note(self._maps, layout, found, memory.head)
                if found.name == memory.mark.name:
                    memory.mark = noted
                else:
                    memory.witness = noted

    async def _look_at_spare(self, spare: Segment) -> None:
        """Restore ``spare``, the next segment, in which no group was written yet: empty it, or have it made again if
        missing.
        """
        memory, left = self._memory, spare.metadata.resource_version
        name = memory.layout.segment(spare.number)
        found = await self._maps.read(name, data=True)
        if _is_at(found, left) or await self._is_deposed(name):
            return
        async with self._turn:
            if not self._leads() or memory.spare is not spare or spare.metadata.resource_version != left:
                return
            if found is None or not self._is_ours(found, spare.metadata.uid):
                log.warning("another program deleted the ConfigMap %s, the empty next segment; it is made again", name)
                memory.spare = None
                return
            if found.immutable:
                await delete(self._maps, found)
                memory.spare = None
                return
            if decode(found.metadata.annotations.get(HEAD), name) is not EMPTY or found.data:
                log.warning(
                    "another program changed the ConfigMap %s, the empty next segment; it is emptied again", name
                )
            spare.metadata = found.metadata.check()
            await rewrite(self._maps, memory, spare)

    async def _look_at(self, number: int, left: str) -> None:
        """Restore the segment ``number``, which another program seems to have changed.

        The listing shows another version of it than ``left``, the version of this leader's last write.
        """
        memory, name = self._memory, self._memory.layout.segment(number)
        segment = memory.segments.get(number)
        if segment is None or segment.metadata.resource_version != left:
            return  # a group was written meanwhile, which would have met a conflict after a foreign change
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
                    self._log_unrepaired(name, end)
                    return
            else:
                await restore(self._maps, memory, segment, found)
            await rewrite(self._maps, memory, segment)

    # -- private ---------------------------------------------------------------------------------------------------

    def _leads(self) -> bool:
        return self._stands() and not self.deposed

    async def _is_deposed(self, name: str) -> bool:
        """Return whether another leader may have taken over, so that this one may not restore the segment ``name``.

        Call this after the segment was read.
        """
        if not self._leads():
            return True
        end = await deposed(self._maps, self._memory)
        if end is not None:
            self._log_unrepaired(name, end)
        return end is not None

    def _log_unrepaired(self, name: str, end: Commit) -> None:
        log.warning("cannot restore the ConfigMap %s: %s", name, end)
        self.deposed |= isinstance(end, CommitRefused) and end.reason is Refusal.HEAD_MOVED

    def _is_ours(self, found: ConfigMap, uid: str) -> bool:
        """Return whether Milepost made the ConfigMap: it has the ``uid`` that this process saw before, or Milepost's
        labels.
        """
        labels: Mapping[str, str] = self._memory.layout.labels
        return found.metadata.uid == uid or found.metadata.labels.items() >= labels.items()


async def stored_head(maps: Maps, memory: ChainMemory) -> Head | None:
    """Return the journal's head as it is stored now; None if no segment has it.

    The search begins at the last segment that ``memory`` knows, and follows later ones that were made since.
    """
    number, head = memory.last, None
    if memory.tail.head.state is SegmentState.EMPTY and number > memory.first:
        number -= 1
    while True:
        name = memory.layout.segment(number)
        found = await maps.read(name, data=False)
        recorded = None if found is None else decode(found.metadata.annotations.get(HEAD), name)
        if recorded is None or recorded.state is SegmentState.EMPTY:
            return head
        head = recorded.of(memory.layout.journal)
        if recorded.state is not SegmentState.SEALED:
            return head
        number = recorded.next


async def _unless_denied(look: Awaitable[None], denied: list[BackendError]) -> None:
    try:
        await look
    except (Misconfigured, StorageFull) as error:
        denied.append(error)


def _is_at(found: ConfigMap | None, version: str) -> bool:
    return found is not None and found.metadata.resource_version == version


def _same(one: Head, other: Head) -> bool:
    return (one.term, one.lineage) == (other.term, other.lineage)
