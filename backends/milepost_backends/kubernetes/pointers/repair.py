"""Finds out how another program changed a segment, and restores it from the leader's memory.

A write of the leader meets a conflict if another leader took over, or if another program edited, emptied or deleted the
ConfigMap. The present content of the ConfigMap does not always show which: a segment that is empty now may have held
groups of a new leader. But a new leader writes its term into the witness and the deployment marker before its first
group. So if one of these two, read *after* the segment, still names this leader, the segment held no group of another
leader. The repair is conditional on the version of the segment that was read, so it never undoes a group of another
leader. If both are missing, the segment's head may show the same: a new leader would have replaced it.

If the ConfigMap was made immutable, only its metadata can be written. That is enough to seal the segment, and groups
continue in the next one. If its entries were altered as well, the ConfigMap is deleted, on the condition that it still
has the version that was read, and is made anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import msgspec

from milepost_backends.contract import Commit, CommitRefused, Refusal, StorageUnavailable, Unknown
from milepost_backends.kubernetes.configmaps.chain import Segment
from milepost_backends.kubernetes.configmaps.head import EMPTY, SegmentHead, decode
from milepost_backends.kubernetes.configmaps.maps import Maps, metadata_of
from milepost_backends.kubernetes.configmaps.memory import ChainMemory
from milepost_backends.kubernetes.configmaps.objects import HEAD, ConfigMap, Metadata
from milepost_backends.kubernetes.configmaps.stamps import read
from milepost_backends.kubernetes.errors import ApiAnswer, backend_error

log = logging.getLogger("milepost.kubernetes")

ALREADY_EXISTS: Final = "AlreadyExists"
_SHOWN: Final = 5


async def repair(maps: Maps, memory: ChainMemory, segment: Segment, meant: SegmentHead | None = None) -> Commit | None:
    """Find out why a write to the last segment met a conflict, and prepare the segment to be written again.

    Return None if another program changed the segment: the caller then writes it again, and so undoes that change.
    Otherwise return the outcome of the caller's group: refused if another leader has taken the journal over, unknown if
    the segment has the head ``meant``, which this group writes (None if the caller writes no group). If this raises
    `BackendError`, the group was not committed.
    """
    name = memory.layout.segment(segment.number)
    found = await maps.read(name, data=True)
    head = None
    if found is not None:
        head = decode(found.metadata.annotations.get(HEAD), name)
        if head is not None and head == meant:
            return Unknown(f"{name} has the head of this group, although the answer was a conflict")
        if head is not None and head != segment.head and not _is_older_copy(head, segment.head):
            memory.is_superseded |= memory.is_behind(head)
            return CommitRefused(Refusal.HEAD_MOVED, f"the head in {name} is {head.encoded(name)}")
    if (end := await deposed(maps, memory, is_ours=head is not None and head == segment.head)) is not None:
        return end
    await restore(maps, memory, segment, found)
    return None


def _is_older_copy(head: SegmentHead, ours: SegmentHead) -> bool:
    """Return whether another program, and not a leader, wrote ``head`` in place of ``ours``: for example a restored
    dump.

    Two such heads can be recognized: an earlier head of this leader's own term, and an empty head, which no leader
    writes over another head. The head of an older term may come from its leader: a late repair, with groups that this
    leader acknowledged before the present leader took over.
    """
    if head == EMPTY:
        return True
    return (head.term, head.lineage) == (ours.term, ours.lineage) and head.revision < ours.revision


async def deposed(maps: Maps, memory: ChainMemory, *, is_ours: bool = False) -> CommitRefused | None:
    """Read the witness and the deployment marker; return a refusal unless they show that this leader still leads.

    ``is_ours`` says that the last segment was read before, and has the head that this leader wrote. If both the witness
    and the marker are missing, only that head shows that no other leader has taken over. Without it, the refusal makes
    the leader take the journal over again, under its lease. Raises `BackendError`.
    """
    named = False
    for stamp in (memory.witness, memory.mark):
        recorded = (await read(maps, stamp.name)).recorded
        if recorded is not None and not recorded.is_of(memory.head) and recorded.term >= memory.head.term:
            memory.is_superseded |= memory.is_behind(recorded)
            return CommitRefused(Refusal.HEAD_MOVED, f"term {recorded.term} leads, as {stamp.name} shows")
        named |= recorded is not None and recorded.is_of(memory.head)
    if named or is_ours:
        return None
    names = f"{memory.witness.name} and {memory.mark.name}"
    return CommitRefused(Refusal.HEAD_MOVED, f"{names} are gone or not valid, so it is not known who led last")


async def restore(maps: Maps, memory: ChainMemory, segment: Segment, found: ConfigMap | None) -> None:
    """Make the next write of ``segment`` possible, by a version on which it can be conditional. Raises `BackendError`.

    It is the version of ``found`` or, if the ConfigMap is missing or must be deleted, that of a new ConfigMap.
    """
    if found is None:
        await recreate(maps, memory, segment)
        return
    adopt(segment, found)
    if found.immutable and found.data != segment.data:
        await delete(maps, found)
        await recreate(maps, memory, segment)


async def delete(maps: Maps, found: ConfigMap) -> None:
    """Delete the immutable ConfigMap ``found``, on the condition that it is unchanged since it was read.

    A finalizer could keep the altered ConfigMap without limit, so its finalizers are removed first. Raises
    `BackendError`.
    """
    metadata = found.metadata
    log.warning(
        "another program altered the ConfigMap %s and made it immutable; it is deleted and made anew", metadata.name
    )
    if metadata.finalizers:
        answer = await maps.replace(msgspec.structs.replace(metadata, finalizers=[]), found.data, found.frozen)
        metadata = metadata_of(answer, f"take the finalizers out of the ConfigMap {metadata.name}")
    answer = await maps.delete(metadata)
    if answer.status == 409:
        raise StorageUnavailable(f"another program keeps changing the ConfigMap {metadata.name}")
    if not answer.done and answer.status != 404:
        raise backend_error(answer, f"delete the immutable ConfigMap {metadata.name}")


async def recreate(maps: Maps, memory: ChainMemory, segment: Segment) -> None:
    """Make a deleted segment again, but without its owners and finalizers, which may have led to its deletion.

    If another program has made the ConfigMap meanwhile, nothing is changed, and the next write meets another conflict.
    A request that arrives late does no harm: it creates this leader's last state under its own term, or a segment below
    the oldest, which is garbage. Raises `BackendError`.
    """
    name = memory.layout.segment(segment.number)
    log.warning("another program deleted the ConfigMap %s while it was in use; it is made again from memory", name)
    kept = Metadata(name=name, labels=segment.metadata.labels, annotations=segment.metadata.annotations)
    answer = await maps.create(memory.layout.marked(kept, segment.head.encoded(name)), segment.data)
    if not exists_already(answer):
        segment.metadata = metadata_of(answer, f"make the ConfigMap {name} again")
        segment.frozen = None


async def rewrite(maps: Maps, memory: ChainMemory, segment: Segment) -> None:
    """Write a segment as it is in memory. Raises `BackendError`, also for a conflict: the next check tries again."""
    name = memory.layout.segment(segment.number)
    marked = memory.layout.marked(segment.metadata, segment.head.encoded(name))
    answer = await maps.replace(marked, segment.data, segment.frozen)
    segment.metadata = metadata_of(answer, f"restore the ConfigMap {segment.metadata.name}")


def adopt(segment: Segment, found: ConfigMap) -> None:
    """Take the version, labels, annotations, owners and finalizers of ``found`` for later writes of ``segment``.

    What another program changed is logged.
    """
    name, kept = segment.metadata.name, segment.metadata
    if decode(found.metadata.annotations.get(HEAD), found.metadata.name) != segment.head:
        log.warning("another program replaced the head of the ConfigMap %s; it is restored from memory", name)
    if found.data != segment.data:
        keys = sorted(_altered(found.data, segment.data))
        log.warning(
            "another program altered %d records in the ConfigMap %s; they are restored from memory: %s",
            len(keys),
            name,
            ", ".join(keys[:_SHOWN]),
        )
    if found.immutable and segment.frozen is None:
        log.warning("another program made the ConfigMap %s immutable; groups go on in the next one", name)
    if _marks(found.metadata) != _marks(kept):
        log.info(
            "another program changed labels, annotations, owners or finalizers of the ConfigMap %s; they are kept", name
        )
    segment.metadata, segment.frozen = found.metadata.check(), found.frozen


def exists_already(answer: ApiAnswer) -> bool:
    """Return whether a creation failed because an object of this name exists."""
    return answer.status == 409 and answer.reason == ALREADY_EXISTS


def _altered(found: dict[str, str], meant: dict[str, str]) -> Iterable[str]:
    return (key for key in found.keys() | meant.keys() if found.get(key) != meant.get(key))


def _marks(metadata: Metadata) -> tuple[object, ...]:
    annotations = {name: text for name, text in metadata.annotations.items() if name != HEAD}
    return metadata.labels, annotations, metadata.owner_references, metadata.finalizers
