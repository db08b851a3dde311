"""Taking a journal over again that this process leads already, when the outcome of a write is not known.

Its lease holds, so its memory is the truth until it is shown that a later term wrote: by a segment, the witness or the
founding mark that names a later term *and* a later revision. (A later term at an earlier revision is the work of who
was paused, and put back what it remembered: whoever leads by right has seen everything, and is ahead.) Then this
returns None, and what is listed is what there is.

Otherwise what is found in the last segment is one of these, and each has its end:

* what memory has, or the group in doubt, or an earlier attempt of this kind: each has a head of its own, so it is known
  which, and memory has its entries;
* anything else, or nothing: somebody else's hands did it. The write in doubt may have landed before that or not. It can
  land no more, for it was conditional on a version that is gone; nobody was told of it; and what it was to change is
  asked for again by those who wait for it. So memory is put back without it.

In either case a new term is put over it on the version that was found. Whatever of ours is still on its way meets
another version then. What is not the last segment is put right by the next check, which follows at once.
"""

from __future__ import annotations

import logging
import secrets
from typing import Final

from backends.contract import Head, StorageUnavailable
from backends.kubernetes.configmaps.chain import SegmentListing
from backends.kubernetes.configmaps.head import SegmentHead, WitnessAnnotation, active, decode
from backends.kubernetes.configmaps.maps import Maps, metadata_of
from backends.kubernetes.configmaps.memory import ChainMemory, SegmentDraft
from backends.kubernetes.configmaps.objects import HEAD
from backends.kubernetes.configmaps.stamps import read
from backends.kubernetes.errors import Fate, NotSent, backend_error
from backends.kubernetes.pointers.repair import restored, rewrite
from backends.kubernetes.pointers.takeover import stamp

log = logging.getLogger("milepost.kubernetes")

_ROUNDS: Final = 40
"""While somebody else edits the last segment."""


async def retake(maps: Maps, memory: ChainMemory, attempted: set[str]) -> bool:
    """Take over by memory, which is under the next term then. False: a later term wrote. Raises `BackendError`."""
    maps.check_room()
    for _ in range(_ROUNDS):
        name = memory.layout.segment(memory.last)
        found = await maps.read(name, data=True)
        witness, mark = await read(maps, memory.witness.name), await read(maps, memory.mark.name)
        told: list[WitnessAnnotation | SegmentHead] = [each.told for each in (witness, mark) if each.told is not None]
        told += await _heads(maps, memory)
        if any(each.lineage not in attempted and memory.is_behind(each) for each in told):
            return False
        head = None if found is None else decode(found.metadata.annotations.get(HEAD), name)
        landed = next((draft for draft in memory.doubts if draft.number == memory.last and draft.head == head), None)
        if found is not None and landed is not None:
            memory.landed(landed, found.metadata.check())
            if landed.then is not None:  # the next segment takes the fence
                if found.data != landed.data:
                    segment = memory.segments[landed.number]
                    await restored(maps, memory, segment, found)
                    await rewrite(maps, memory, segment)
                continue
        await restored(maps, memory, memory.tail, found)
        term = max([memory.head.term, *(each.term for each in told)]) + 1
        if await _fenced(maps, memory, term, attempted):
            await stamp(maps, memory, witness, mark)
            return True
    raise StorageUnavailable(f"somebody keeps changing the ConfigMap {memory.layout.segment(memory.last)}")


async def _heads(maps: Maps, memory: ChainMemory) -> list[SegmentHead]:
    """Of every segment there is that makes sense. Raises `BackendError`."""
    items = await maps.listed(memory.layout.labels, data=False)
    return [head for head in SegmentListing.of(memory.layout, items, None).heads.values() if head is not None]


async def _fenced(maps: Maps, memory: ChainMemory, term: int, attempted: set[str]) -> bool:
    """Put the head of a new term into the last segment, along with what memory has; False: look again."""
    last, tail = memory.head, memory.tail
    head = Head(last.journal, term, last.revision + 1, secrets.token_hex(6), digest=last.digest)
    attempted.add(head.lineage)
    draft = SegmentDraft(tail.number, active(head, memory.first, tail.data), tail.data, tail.size)
    memory.doubts.append(draft)
    name = memory.layout.segment(tail.number)
    try:
        marked = memory.layout.marked(tail.metadata, draft.head.encoded(name))
        answer = await maps.replace(marked, tail.data, tail.frozen)
    except NotSent:
        memory.doubts.remove(draft)
        raise
    if answer.done:
        memory.landed(draft, metadata_of(answer, f"take over {last.journal!r}"))
        return True
    if answer.fate is not Fate.UNKNOWN:
        memory.doubts.remove(draft)
    if answer.status not in (404, 409) and not answer.is_of_immutable:
        raise backend_error(answer, f"take over {last.journal!r}")
    return False
