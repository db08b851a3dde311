"""Takes a journal over: lists it, fences it, and records the new term in the witness and in the deployment marker.

The fence is a PUT that writes a head of the new term into the last segment. The last leader may be paused at any point
between the listing and the fence. No write of the last leader is committed after the fence:

* Its groups, and its sealing of the last segment, are conditional on the version of that segment, which the fence
  changes. If one of these writes is committed first, the fence meets a conflict, and the journal is listed again.
* If it has sealed the last segment, its next group goes to the next segment, which must still be empty. The fence is
  then written to the same segment, under the same condition, so only one of the two writes can succeed.
* If it creates an empty segment late, that segment exists already, or is used as the next one, or is garbage below the
  oldest segment. No group depends on a creation.
* It deletes only segments below ``first``, after a committed write has declared them garbage.
* It repairs a segment only on the version that it read *before* it found its own term in the witness (see
  `milepost_backends.kubernetes.pointers.repair`). The new leader writes the witness after the fence and before its
  first group. So the repaired version has no group of the new leader. If such a repair is committed after the fence,
  the first group of the new leader meets a conflict, finds the head of the last leader, and is refused.

A damaged journal is rebuilt from the entries that remain, once the owner of the journal has accepted the loss of the
others. Every remaining entry is kept, since each record is verified when it is read. A missing segment is replaced by
an empty one. The journal continues well above every revision that is named anywhere in it.

A process that leads the journal already, and whose lease still holds, takes it over again after a write with an unknown
outcome. It does so from its memory (`retake`), unless a segment, the witness or the deployment marker names a later
term *and* a later revision: then another leader has written, and the journal is listed. A later term at an earlier
revision does not count, since it comes from a leader that was paused and wrote its outdated memory.

What `retake` finds in the last segment decides how it goes on:

* If it finds the head in memory, or that of the group in doubt, or that of an earlier attempt of `retake`, it knows the
  entries that belong to this head.
* If it finds anything else, or nothing, another program has changed the segment. The group in doubt can no longer be
  committed, since it is conditional on an earlier version, and no client was told that it was committed. So the segment
  is restored from memory without this group, and the waiting requests are decided again.

In both cases `retake` writes the head of a new term, on the version that it found. Every write of this process that is
still in flight then meets a conflict. The next check, which follows at once, repairs the other segments.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection
from typing import Final

import msgspec

from milepost_backends.contract import NO_RECORDS, Head, JournalDamaged, StorageUnavailable, TakeOverLost
from milepost_backends.kubernetes.configmaps.chain import Chain, Segment, SegmentListing, chain_in
from milepost_backends.kubernetes.configmaps.head import (
    EMPTY,
    SegmentHead,
    SegmentState,
    WitnessAnnotation,
    active,
    decode,
    first,
    sealed,
    sum_of,
)
from milepost_backends.kubernetes.configmaps.maps import Maps, metadata_of
from milepost_backends.kubernetes.configmaps.memory import ChainMemory, PendingSegment
from milepost_backends.kubernetes.configmaps.objects import HEAD, ConfigMapLayout, Metadata
from milepost_backends.kubernetes.configmaps.stamps import Stamp, note, read
from milepost_backends.kubernetes.errors import Fate, NotSent, backend_error
from milepost_backends.kubernetes.pointers.repair import exists_already, restore, rewrite

log = logging.getLogger("milepost.kubernetes")

_LISTINGS: Final = 10
_FENCES: Final = 20
"""The most attempts at a fence while the last leader still commits groups."""
_RETAKES: Final = 40
"""The most attempts to take over from memory while another program edits the last segment."""

_MOST_MISSING: Final = 256
_AHEAD: Final = 1_000_000
"""The number of revisions that a rebuilt journal skips: more than may have been lost."""


async def take_over(
    maps: Maps, layout: ConfigMapLayout, attempted: set[str], *, known: Head | bool, accepted: Collection[str] = ()
) -> ChainMemory:
    """Take over the journal of ``layout``, and return this process's memory of it; see `PointerStore.take_over`.

    If ``known`` is true, or a head that this process has committed, the journal has existed, and is not created anew.
    ``attempted`` has the lineages of this process's earlier attempts, any of which may be committed late; the lineage
    of this attempt is added. ``accepted`` has the values of ``--accept-loss``.
    """
    maps.check_room()
    fenced: Head | None = None
    for _ in range(_LISTINGS):
        mark = await read(maps, layout.deployment_marker)
        listed = SegmentListing.of(layout, await maps.listed(layout.labels, data=True), mark)
        chain = _accepted(listed, accepted)
        if chain is None:
            if known:
                raise StorageUnavailable(f"the ConfigMaps of {layout.journal!r} were deleted while in use")
            await _make_first(maps, layout)
            continue
        if fenced is not None and chain.head != fenced:
            raise TakeOverLost(f"another leader took {layout.journal!r} over just now")
        if fenced is None:
            _not_older(layout, chain, known)
            for number in chain.segments.keys() - set(chain.to_rewrite):
                if not chain.segments[number].is_proven:
                    name = layout.segment(number)
                    log.error("another program altered the entries of the ConfigMap %s: their sum does not match", name)
                await asyncio.sleep(0)  # let other tasks run: the checksums of many megabytes take long
            await _write_salvaged(maps, layout, chain)
        memory = ChainMemory(layout, chain)
        if fenced is None:
            fenced = await _fence(maps, memory, chain, listed.past[0], attempted)
        if memory.head == fenced:
            await _stamp(maps, memory, chain.witness, mark)
            return memory
    raise StorageUnavailable(f"the ConfigMaps of {layout.journal!r} keep changing")


async def retake(maps: Maps, memory: ChainMemory, attempted: set[str]) -> bool:
    """Take the journal over from ``memory``, which then has the next term. Raises `BackendError`.

    ``attempted`` has the lineages of this process's earlier attempts; that of this attempt is added. Return False if
    another leader has written since, so that the journal must be listed.
    """
    maps.check_room()
    for _ in range(_RETAKES):
        name = memory.layout.segment(memory.last)
        found = await maps.read(name, data=True)
        witness, mark = await read(maps, memory.witness.name), await read(maps, memory.mark.name)
        recorded: list[WitnessAnnotation | SegmentHead] = [
            each.recorded for each in (witness, mark) if each.recorded is not None
        ]
        listed = SegmentListing.of(memory.layout, await maps.listed(memory.layout.labels, data=False), None)
        recorded += [head for head in listed.heads.values() if head is not None]
        if any(each.lineage not in attempted and memory.is_behind(each) for each in recorded):
            return False
        head = None if found is None else decode(found.metadata.annotations.get(HEAD), name)
        committed = next(
            (pending for pending in memory.in_doubt if pending.number == memory.last and pending.head == head), None
        )
        if found is not None and committed is not None:
            memory.committed(committed, found.metadata.check())
            if committed.then is not None:  # the found segment is sealed, so the fence goes into the next one
                if found.data != committed.data:
                    segment = memory.segments[committed.number]
                    await restore(maps, memory, segment, found)
                    await rewrite(maps, memory, segment)
                continue
        await restore(maps, memory, memory.tail, found)
        term = max([memory.head.term, *(each.term for each in recorded)]) + 1
        if await _fence_from_memory(maps, memory, term, attempted):
            await _stamp(maps, memory, witness, mark)
            return True
    raise StorageUnavailable(f"another program keeps changing the ConfigMap {memory.layout.segment(memory.last)}")


async def _fence_from_memory(maps: Maps, memory: ChainMemory, term: int, attempted: set[str]) -> bool:
    """Write a head of the term ``term``, with the entries in memory, into the last segment. Raises `BackendError`.

    Return True once it is written. Return False after a conflict, or if the outcome is unknown: the segment must then
    be read again. The lineage of the new head is added to ``attempted``.
    """
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


async def _stamp(maps: Maps, memory: ChainMemory, witness: Stamp, mark: Stamp) -> None:
    """Record the take-over in the witness and in the deployment marker. Raises `TakeOverLost`, `BackendError`."""
    for each in (witness, mark):
        if each.metadata is not None and each.recorded is None:
            log.error("the ConfigMap %s is not valid, or another program altered it; it is written anew", each.name)
    memory.witness = await note(maps, memory.layout, witness, memory.head)
    memory.mark = await note(maps, memory.layout, mark, memory.head)


def _accepted(listed: SegmentListing, accepted: Collection[str]) -> Chain | None:
    """Return the listed chain. Raises `JournalDamaged` for a damaged one, unless the owner has accepted its loss.

    In that case the result is the rest of the chain. ``accepted`` has the values of ``--accept-loss``.
    """
    try:
        return chain_in(listed)
    except JournalDamaged as damage:
        if damage.loss is None or damage.loss not in accepted:
            raise
        return _salvaged(listed, damage)


def _not_older(layout: ConfigMapLayout, chain: Chain, known: Head | bool) -> None:
    """Raise `JournalDamaged` if the journal is at an earlier revision than ``known``, a head that this process
    committed.
    """
    if isinstance(known, Head) and chain.head.revision < known.revision:
        raise JournalDamaged(
            f"the newest segment of {layout.journal!r} is of revision {chain.head.revision}, but revision"
            f" {known.revision} was committed: an older copy was put in its place. Restore the newer one"
        )


async def _make_first(maps: Maps, layout: ConfigMapLayout) -> None:
    """Make the first segment of a new journal. It is no error if another process has made it."""
    name = layout.segment(1)
    answer = await maps.create(layout.marked(Metadata(name=name), first().encoded(name)), {})
    if not exists_already(answer):
        metadata_of(answer, f"create the ConfigMap {name}")


async def _write_salvaged(maps: Maps, layout: ConfigMapLayout, chain: Chain) -> None:
    """Write the segments whose content changes, because the owner of the deployment has accepted the loss of a part.

    A segment that only lost its labels still exists, and keeps its entries. Raises `BackendError`, also if another
    process writes a segment at the same time.
    """
    for number in chain.to_rewrite:
        segment, name = chain.segments[number], layout.segment(number)
        if not segment.metadata.uid and (found := await maps.read(name, data=True)) is not None:
            segment.metadata, segment.frozen = found.metadata.check(), found.frozen
            segment.hold(found.data)
            segment.head = msgspec.structs.replace(segment.head, entries=sum_of(found.data))
        marked = layout.marked(segment.metadata, segment.head.encoded(name))
        if segment.metadata.uid:
            answer = await maps.replace(marked, segment.data, segment.frozen)
        else:
            answer = await maps.create(marked, segment.data)
        segment.metadata = metadata_of(answer, f"go on without what was lost of {layout.journal!r}")


async def _fence(maps: Maps, memory: ChainMemory, chain: Chain, past: int, attempted: set[str]) -> Head | None:
    """Write a head of a new term into the last segment, and return it. None means that the journal must be listed
    again.

    The new term follows the one in the chain's head and ``past``, the latest term in the witness and the deployment
    marker. The new lineage is added to ``attempted``. If no group was committed since the listing, the head is noted in
    ``memory`` as well.
    """
    layout, tail = memory.layout, memory.tail
    name = layout.segment(tail.number)
    metadata, data, frozen, last, first = tail.metadata, tail.data, tail.frozen, chain.head, chain.first
    # the wrong checksum of altered entries is kept, so that the next leader also detects them
    altered = None if tail.is_proven else tail.head.entries
    for attempt in range(_FENCES):
        head = Head(last.journal, max(last.term, past) + 1, last.revision + 1, secrets.token_hex(6), digest=last.digest)
        attempted.add(head.lineage)
        moved = active(head, first, data)
        if altered is not None:
            moved = msgspec.structs.replace(moved, entries=altered)
        pending = PendingSegment(tail.number, moved, data, tail.size)
        answer = await maps.replace(layout.marked(metadata, pending.head.encoded(name)), data, frozen)
        if answer.done:
            if attempt == 0:
                memory.committed(pending, metadata_of(answer, f"take over {layout.journal!r}"))
            return head
        if answer.status not in (404, 409):
            raise backend_error(answer, f"take over {layout.journal!r}")
        found = await maps.read(name, data=True)
        recorded = None if found is None else decode(found.metadata.annotations.get(HEAD), name)
        if (
            found is None
            or recorded is None
            or recorded.state is not SegmentState.ACTIVE
            or recorded.lineage in attempted
        ):
            return None
        if (recorded.term, recorded.lineage) != (chain.head.term, chain.head.lineage):
            raise TakeOverLost(f"another leader took {layout.journal!r} over just now")
        metadata, data, frozen = found.metadata.check(), found.data, found.frozen
        last, first = recorded.of(layout.journal), recorded.first
        altered = None if recorded.proves(data) else recorded.entries
    raise StorageUnavailable(f"groups of an older leader keep being committed in {layout.journal!r}")


def _salvaged(listed: SegmentListing, damage: JournalDamaged) -> Chain:
    """Return what is left of the journal without its lost parts. Raises ``damage`` if that is too little to continue
    from.
    """
    layout = listed.layout
    what = str(damage).partition(". To go on")[0]  # without the advice at its end on how to accept the loss
    log.error("accepted as the loss %s of journal %r, which goes on without it: %s", damage.loss, layout.journal, what)
    held = sorted(number for number, recorded in listed.heads.items() if recorded is not EMPTY)
    held = held or [max(listed.found, default=0) + 1]
    readable = {number: recorded for number in held if (recorded := listed.heads.get(number)) is not None}
    newest = max(readable.values(), key=lambda recorded: (recorded.term, recorded.revision), default=None)
    top = readable.get(held[-1])
    first = top.first if top is not None else _oldest(held, newest)
    last = held[-1] + (top is not None and top.state is SegmentState.SEALED)
    if last - first - len(held) > _MOST_MISSING:
        raise damage
    head = _going_on(listed, newest)
    segments, to_rewrite = {}, []
    for number in range(first, last + 1):
        found = listed.found.get(number)
        recorded = listed.heads.get(number)
        metadata = Metadata(name=layout.segment(number)) if found is None else found.metadata.check()
        segment = Segment(number, metadata, EMPTY, frozen=None if found is None else found.frozen)
        segment.hold({} if found is None else found.data)
        data = segment.data
        segment.head = active(head, first, data) if number == last else sealed(head, first, number + 1, data)
        if recorded is None or (
            recorded.state is not segment.head.state and not (number == last and recorded is EMPTY)
        ):
            to_rewrite.append(number)
        elif number < last or recorded is EMPTY:
            segment.head = recorded
        segments[number] = segment
    leftovers = [item.metadata for number, item in sorted(listed.found.items()) if number < first]
    spare = listed.found.get(last + 1)
    is_spare = spare is not None and listed.heads[last + 1] is EMPTY
    following = Segment(last + 1, spare.metadata.check(), EMPTY) if spare is not None and is_spare else None
    return Chain(head, first, last, segments, following, leftovers, listed.witness, tuple(to_rewrite))


def _oldest(held: list[int], newest: SegmentHead | None) -> int:
    return held[0] if newest is None else max(held[0], newest.first)


def _going_on(listed: SegmentListing, newest: SegmentHead | None) -> Head:
    term, revision = max(listed.past, (0, 0) if newest is None else (newest.term, newest.revision))
    lineage, digest = ("salvaged", NO_RECORDS) if newest is None else (newest.lineage, newest.digest)
    return Head(listed.layout.journal, max(term, 1), revision + _AHEAD, lineage, digest)
