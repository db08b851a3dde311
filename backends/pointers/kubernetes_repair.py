"""What somebody else's hands did to a segment, and putting it back from the leader's memory.

A write whose condition does not hold has two explanations: another leader took over, or somebody edited, wiped or
deleted the ConfigMap. What is found there does not always tell: a segment that was wiped may have held the groups of a
successor. The witness tells. Whoever takes over records that in it before the first group, so if it still names this
leader when it is read *after* the segment, then nobody else's group was in what was found. The repair is conditional
on what was found; so it never undoes a group of somebody else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import msgspec

from backends.contract import Commit, Refusal, Refused, Unknown
from backends.kubernetes.errors import Answer
from backends.pointers.kubernetes_chain import Segment
from backends.pointers.kubernetes_head import EMPTY, SegmentHead, Witness, decode
from backends.pointers.kubernetes_maps import Maps, metadata_of
from backends.pointers.kubernetes_memory import Memory
from backends.pointers.kubernetes_objects import HEAD, ConfigMap, Metadata

log = logging.getLogger("milepost.kubernetes")

ALREADY_EXISTS: Final = "AlreadyExists"
_SHOWN: Final = 5


async def repair(maps: Maps, memory: Memory, segment: Segment, meant: SegmentHead | None = None) -> Commit | None:
    """Find out why a write to the last segment met a conflict, and make it possible again where it may be.

    None: to be written again, which also puts right what was done to it. Otherwise how the group ended that was to
    leave the head ``meant``. Raises `BackendError`: the group did not land.
    """
    name = memory.layout.segment(segment.number)
    found = await maps.read(name, data=True)
    if found is not None:
        head = decode(found.metadata.annotations.get(HEAD), segment.number)
        if head is not None and head == meant:
            return Unknown(f"{name} has the head of this group, though the answer is a conflict")
        if head is not None and head != segment.head and not _is_older_copy(head, segment.head):
            return Refused(Refusal.HEAD_MOVED, f"the head in {name} is {head.encoded()}")
    if (end := await deposed(maps, memory)) is not None:
        return end
    if found is None:
        await put_back(maps, memory, segment)
    else:
        adopt(segment, found)
    return None


def _is_older_copy(head: SegmentHead, ours: SegmentHead) -> bool:
    """Whether only somebody's hands can have put ``head`` in place of ``ours``, such as those of who restores a dump.

    Nobody else writes our lineage, and no leader an empty head over another. The head of an older term is no such
    sign: it may be a repair by our predecessor, with groups that it acknowledged before we took over.
    """
    if head == EMPTY:
        return True
    return (head.term, head.lineage) == (ours.term, ours.lineage) and head.revision < ours.revision


async def deposed(maps: Maps, memory: Memory) -> Refused | None:
    """None if the witness, read now, says that nobody has taken over since. Raises `BackendError`."""
    name = memory.layout.witness
    found = await maps.read(name, data=False)
    told = None if found is None else Witness.decode(found.metadata.annotations.get(HEAD))
    if told is None:
        return Refused(Refusal.FAILED, f"{name} is gone or makes no sense, so who leads last is not to be told")
    if told != Witness.of(memory.head):
        return Refused(Refusal.HEAD_MOVED, f"term {told.term} leads, says {name}")
    return None


async def put_back(maps: Maps, memory: Memory, segment: Segment) -> None:
    """Make a segment anew that somebody deleted. Raises `BackendError`.

    If somebody else did so just now, then what is there now is the next conflict. If it lands late, it is this leader's
    last state under its own term; where segments that count have moved on, it is garbage below them.
    """
    name = memory.layout.segment(segment.number)
    log.warning("the ConfigMap %s was deleted while in use; it is put back", name)
    kept = msgspec.structs.replace(segment.metadata, name=name, uid="", resource_version="")
    answer = await maps.create(memory.layout.marked(kept, segment.head.encoded()), segment.data)
    if not exists_already(answer):
        segment.metadata = metadata_of(answer, f"put back the ConfigMap {name}")


async def rewrite(maps: Maps, memory: Memory, segment: Segment) -> None:
    """Write a segment as it is in memory; one that is just so already stays untouched. Raises `BackendError`.

    A conflict raises as well: the next check looks again.
    """
    answer = await maps.replace(memory.layout.marked(segment.metadata, segment.head.encoded()), segment.data)
    segment.metadata = metadata_of(answer, f"put right the ConfigMap {segment.metadata.name}")


def adopt(segment: Segment, found: ConfigMap) -> None:
    """Go on from the version found, whose labels, annotations, owners and finalizers are kept; tell what was done."""
    name, kept = segment.metadata.name, segment.metadata
    if decode(found.metadata.annotations.get(HEAD), segment.number) != segment.head:
        log.warning("the ConfigMap %s was replaced by somebody, its head wiped or an older one; it is put right", name)
    if found.data != segment.data:
        keys = sorted(_altered(found.data, segment.data))
        log.warning(
            "%d records in the ConfigMap %s were altered by somebody; they are put right: %s",
            len(keys),
            name,
            ", ".join(keys[:_SHOWN]),
        )
    if _marks(found.metadata) != _marks(kept):
        log.info("the ConfigMap %s has other labels, annotations, owners or finalizers; they are kept", name)
    segment.metadata = found.metadata.check()


def exists_already(answer: Answer) -> bool:
    """Whether nothing was created because there is something of this name."""
    return answer.status == 409 and answer.reason == ALREADY_EXISTS


def _altered(found: dict[str, str], meant: dict[str, str]) -> Iterable[str]:
    return (key for key in found.keys() | meant.keys() if found.get(key) != meant.get(key))


def _marks(metadata: Metadata) -> tuple[object, ...]:
    annotations = {name: text for name, text in metadata.annotations.items() if name != HEAD}
    return metadata.labels, annotations, metadata.owner_references, metadata.finalizers
