"""Takes a journal over again that this process leads already, after a write with an unknown outcome.

The lease holds, so memory is authoritative until something shows that a later term wrote: a segment, the witness or the
deployment marker that names a later term *and* a later revision. (A later term at an earlier revision shows a leader
that was paused, and wrote its old memory back: the rightful leader has seen everything, and is ahead.) In that case
`retake` returns False, and the listing counts.

Otherwise one of these is found in the last segment, and each has its end:

* what memory has, or the group in doubt, or an earlier attempt to retake: each has a head of its own, so it is known
  which it is, and memory has its entries;
* anything else, or nothing: another process wrote it. The write in doubt may have been committed before that or not. It
  can no longer be committed, since it was conditional on a version that is gone; no client was told that it was; and
  those who wait for it ask for its changes again. So the segment is restored from memory without it.

In either case the head of a new term is written on the version that was found. Every write of this process that is
still in flight then meets another version. All but the last segment is repaired by the next check, which follows at
once.
"""

from __future__ import annotations

import logging
import secrets
from typing import Final

from milepost_backends.contract import Head, StorageUnavailable
from milepost_backends.kubernetes.configmaps.chain import SegmentListing
from milepost_backends.kubernetes.configmaps.head import SegmentHead, WitnessAnnotation, active, decode
from milepost_backends.kubernetes.configmaps.maps import Maps, metadata_of
from milepost_backends.kubernetes.configmaps.memory import ChainMemory, PendingSegment
from milepost_backends.kubernetes.configmaps.objects import HEAD
from milepost_backends.kubernetes.configmaps.stamps import read
from milepost_backends.kubernetes.errors import Fate, NotSent, backend_error
from milepost_backends.kubernetes.pointers.repair import restore, rewrite
from milepost_backends.kubernetes.pointers.takeover import stamp

log = logging.getLogger("milepost.kubernetes")

_ROUNDS: Final = 40
"""The most rounds while another program edits the last segment."""


async def retake(maps: Maps, memory: ChainMemory, attempted: set[str]) -> bool:
    """Take over from memory, which then has the next term. False: a later term wrote. Raises `BackendError`."""
    maps.check_room()
    for _ in range(_ROUNDS):
        name = memory.layout.segment(memory.last)
        found = await maps.read(name, data=True)
        witness, mark = await read(maps, memory.witness.name), await read(maps, memory.mark.name)
        recorded: list[WitnessAnnotation | SegmentHead] = [
            each.recorded for each in (witness, mark) if each.recorded is not None
        ]
        recorded += await _heads(maps, memory)
        if any(each.lineage not in attempted and memory.is_behind(each) for each in recorded):
            return False
        head = None if found is None else decode(found.metadata.annotations.get(HEAD), name)
        committed = next(
            (pending for pending in memory.in_doubt if pending.number == memory.last and pending.head == head), None
        )
        if found is not None and committed is not None:
            memory.committed(committed, found.metadata.check())
            if committed.then is not None:  # the next segment takes the fence
                if found.data != committed.data:
                    segment = memory.segments[committed.number]
                    await restore(maps, memory, segment, found)
                    await rewrite(maps, memory, segment)
                continue
        await restore(maps, memory, memory.tail, found)
        term = max([memory.head.term, *(each.term for each in recorded)]) + 1
        if await _fenced(maps, memory, term, attempted):
            await stamp(maps, memory, witness, mark)
            return True
    raise StorageUnavailable(f"somebody keeps changing the ConfigMap {memory.layout.segment(memory.last)}")


async def _heads(maps: Maps, memory: ChainMemory) -> list[SegmentHead]:
    """Return the valid heads of all segments. Raises `BackendError`."""
    items = await maps.listed(memory.layout.labels, data=False)
    return [head for head in SegmentListing.of(memory.layout, items, None).heads.values() if head is not None]


async def _fenced(maps: Maps, memory: ChainMemory, term: int, attempted: set[str]) -> bool:
    """Write the head of a new term, with the entries in memory, into the last segment; False: look again."""
    last, tail = memory.head, memory.tail
    head = Head(last.journal, term, last.revision + 1, secrets.token_hex(6), digest=last.digest)
    attempted.add(head.lineage)
    pending = PendingSegment(tail.number, active(head, memory.first, tail.data), tail.data, tail.size)
    memory.in_doubt.append(pending)
    name = memory.layout.segment(tail.number)
    try:
        marked = memory.layout.marked(tail.metadata, pending.head.encoded(name))
        answer = await maps.replace(marked, tail.data, tail.frozen)
    except NotSent:
        memory.in_doubt.remove(pending)
        raise
    if answer.done:
        memory.committed(pending, metadata_of(answer, f"take over {last.journal!r}"))
        return True
    if answer.fate is not Fate.UNKNOWN:
        memory.in_doubt.remove(pending)
    if answer.status not in (404, 409) and not answer.is_of_immutable:
        raise backend_error(answer, f"take over {last.journal!r}")
    return False
