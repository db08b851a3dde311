"""What somebody else's hands did to a segment, and putting it back from the leader's memory.

A write whose condition does not hold has two explanations: another leader took over, or somebody edited, wiped or
deleted the ConfigMap. What is found there does not always tell: a segment that was wiped may have held the groups of a
successor. The witness and the founding mark tell. Whoever takes over records that in both before the first group, so if
one still names this leader when it is read *after* the segment, then nobody else's group was in what was found. The
repair is conditional on what was found; so it never undoes a group of somebody else. Where neither is left to ask, the
head of the segment itself does, if it is this leader's own: a successor would have replaced it first of all.

Of a ConfigMap that was made immutable only the metadata can be written. That is enough to seal it as it is, and groups
go on in the next one. If its entries were altered as well, it is deleted on the version found, and made anew: the same
as if its deletion had been the other hand's last act.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import msgspec

from backends.contract import Commit, CommitRefused, Refusal, StorageUnavailable, Unknown
from backends.kubernetes.configmaps.chain import Segment
from backends.kubernetes.configmaps.head import EMPTY, SegmentHead, decode
from backends.kubernetes.configmaps.maps import Maps, metadata_of
from backends.kubernetes.configmaps.memory import ChainMemory
from backends.kubernetes.configmaps.objects import HEAD, ConfigMap, Metadata
from backends.kubernetes.configmaps.stamps import read
from backends.kubernetes.errors import ApiAnswer, backend_error

log = logging.getLogger("milepost.kubernetes")

ALREADY_EXISTS: Final = "AlreadyExists"
_SHOWN: Final = 5


async def repair(maps: Maps, memory: ChainMemory, segment: Segment, meant: SegmentHead | None = None) -> Commit | None:
    """Find out why a write to the last segment met a conflict, and make it possible again where it may be.

    None: to be written again, which also puts right what was done to it. Otherwise how the group ended that was to
    leave the head ``meant``. Raises `BackendError`: the group did not land.
    """
    name = memory.layout.segment(segment.number)
    found = await maps.read(name, data=True)
    head = None
    if found is not None:
        head = decode(found.metadata.annotations.get(HEAD), name)
        if head is not None and head == meant:
            return Unknown(f"{name} has the head of this group, though the answer is a conflict")
        if head is not None and head != segment.head and not _is_older_copy(head, segment.head):
            memory.is_past |= memory.is_behind(head)
            return CommitRefused(Refusal.HEAD_MOVED, f"the head in {name} is {head.encoded(name)}")
    if (end := await deposed(maps, memory, is_ours=head is not None and head == segment.head)) is not None:
        return end
    await restored(maps, memory, segment, found)
    return None


def _is_older_copy(head: SegmentHead, ours: SegmentHead) -> bool:
    """Whether only somebody's hands can have put ``head`` in place of ``ours``, such as those of who restores a dump.

    Nobody else writes our lineage, and no leader an empty head over another. The head of an older term is no such
    sign: it may be a repair by our predecessor, with groups that it acknowledged before we took over.
    """
    if head == EMPTY:
        return True
    return (head.term, head.lineage) == (ours.term, ours.lineage) and head.revision < ours.revision


async def deposed(maps: Maps, memory: ChainMemory, *, is_ours: bool = False) -> CommitRefused | None:
    """None if nobody has taken over since, as the witness and the founding mark tell, read now. Raises `BackendError`.

    ``is_ours``: the last segment was read before this, and has the head that this leader left there. Without that, and
    with neither of the two, it is not to be told; it takes a lease that holds, and a new term, to go on.
    """
    named = False
    for stamp in (memory.witness, memory.mark):
        told = (await read(maps, stamp.name)).told
        if told is not None and not told.is_of(memory.head) and told.term >= memory.head.term:
            memory.is_past |= memory.is_behind(told)
            return CommitRefused(Refusal.HEAD_MOVED, f"term {told.term} leads, says {stamp.name}")
        named |= told is not None and told.is_of(memory.head)
    if named or is_ours:
        return None
    names = f"{memory.witness.name} and {memory.mark.name}"
    return CommitRefused(Refusal.HEAD_MOVED, f"{names} are gone or make no sense, so who leads last is not to be told")


async def restored(maps: Maps, memory: ChainMemory, segment: Segment, found: ConfigMap | None) -> None:
    """Have a version to write the segment by: that which was found, or one made anew. Raises `BackendError`."""
    if found is None:
        await put_back(maps, memory, segment)
        return
    adopt(segment, found)
    if found.immutable and found.data != segment.data:
        await delete(maps, found)
        await put_back(maps, memory, segment)


async def delete(maps: Maps, found: ConfigMap) -> None:
    """Delete what was found immutable, under the condition that it still is just as found. Raises `BackendError`.

    A finalizer would have it stay, altered as it is, for as long as another hand likes, so each is taken out first.
    """
    metadata = found.metadata
    log.warning("the ConfigMap %s was altered and made immutable by somebody; it is made anew", metadata.name)
    if metadata.finalizers:
        answer = await maps.replace(msgspec.structs.replace(metadata, finalizers=[]), found.data, found.frozen)
        metadata = metadata_of(answer, f"take the finalizers out of the ConfigMap {metadata.name}")
    answer = await maps.delete(metadata)
    if answer.status == 409:
        raise StorageUnavailable(f"somebody keeps changing the ConfigMap {metadata.name}")
    if not answer.done and answer.status != 404:
        raise backend_error(answer, f"delete the immutable ConfigMap {metadata.name}")


async def put_back(maps: Maps, memory: ChainMemory, segment: Segment) -> None:
    """Make a segment anew that somebody deleted, without owners, for whose end it may have been deleted, or finalizers.

    Raises `BackendError`.

    If somebody else did so just now, then what is there now is the next conflict. If it lands late, it is this leader's
    last state under its own term; where segments that count have moved on, it is garbage below them.
    """
    name = memory.layout.segment(segment.number)
    log.warning("the ConfigMap %s was deleted while in use; it is put back", name)
    kept = Metadata(name=name, labels=segment.metadata.labels, annotations=segment.metadata.annotations)
    answer = await maps.create(memory.layout.marked(kept, segment.head.encoded(name)), segment.data)
    if not exists_already(answer):
        segment.metadata = metadata_of(answer, f"put back the ConfigMap {name}")
        segment.frozen = None


async def rewrite(maps: Maps, memory: ChainMemory, segment: Segment) -> None:
    """Write a segment as it is in memory; one that is just so already stays untouched. Raises `BackendError`.

    A conflict raises as well: the next check looks again.
    """
    name = memory.layout.segment(segment.number)
    marked = memory.layout.marked(segment.metadata, segment.head.encoded(name))
    answer = await maps.replace(marked, segment.data, segment.frozen)
    segment.metadata = metadata_of(answer, f"put right the ConfigMap {segment.metadata.name}")


def adopt(segment: Segment, found: ConfigMap) -> None:
    """Go on from the version found, whose labels, annotations, owners and finalizers are kept; tell what was done."""
    name, kept = segment.metadata.name, segment.metadata
    if decode(found.metadata.annotations.get(HEAD), found.metadata.name) != segment.head:
        log.warning("the ConfigMap %s was replaced by somebody, its head wiped or an older one; it is put right", name)
    if found.data != segment.data:
        keys = sorted(_altered(found.data, segment.data))
        log.warning(
            "%d records in the ConfigMap %s were altered by somebody; they are put right: %s",
            len(keys),
            name,
            ", ".join(keys[:_SHOWN]),
        )
    if found.immutable and segment.frozen is None:
        log.warning("the ConfigMap %s was made immutable by somebody; groups go on in the next one", name)
    if _marks(found.metadata) != _marks(kept):
        log.info("the ConfigMap %s has other labels, annotations, owners or finalizers; they are kept", name)
    segment.metadata, segment.frozen = found.metadata.check(), found.frozen


def exists_already(answer: ApiAnswer) -> bool:
    """Whether nothing was created because there is something of this name."""
    return answer.status == 409 and answer.reason == ALREADY_EXISTS


def _altered(found: dict[str, str], meant: dict[str, str]) -> Iterable[str]:
    return (key for key in found.keys() | meant.keys() if found.get(key) != meant.get(key))


def _marks(metadata: Metadata) -> tuple[object, ...]:
    annotations = {name: text for name, text in metadata.annotations.items() if name != HEAD}
    return metadata.labels, annotations, metadata.owner_references, metadata.finalizers
