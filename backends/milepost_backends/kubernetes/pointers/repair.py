"""Finds out how another program changed a segment, and restores it from the leader's memory.

A write whose condition does not hold has two explanations: another leader took over, or another program edited, emptied
or deleted the ConfigMap. The ConfigMap's present content does not always decide: a segment that was emptied may have
held the groups of a successor. The witness and the deployment marker decide. A new leader writes both before its first
group, so if one of them still names this leader when it is read *after* the segment, the segment held no group of
another leader. The repair is conditional on the version that was read, so it never undoes a group of another leader. If
neither is left, the head of the segment decides, if it is this leader's own: a successor would have replaced it first.

Only the metadata of an immutable ConfigMap can be written. That is enough to seal it as it is, and groups continue in
the next one. If its entries were altered as well, it is deleted on the version that was read, and made anew, as if it
had been deleted from outside.
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

    Return None if it may be written again, which also undoes the foreign change. Otherwise return the outcome of the
    group that would have left the head ``meant``. Raises `BackendError` if the group was not committed.
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
    """Return whether ``head`` in place of ``ours`` comes from another program, such as a restored dump, and not from a
    leader.

    Only this leader writes its lineage, and no leader writes an empty head over another. The head of an older term is
    no such sign: it may be a repair by the predecessor, with groups that it acknowledged before this leader took over.
    """
    if head == EMPTY:
        return True
    return (head.term, head.lineage) == (ours.term, ours.lineage) and head.revision < ours.revision


async def deposed(maps: Maps, memory: ChainMemory, *, is_ours: bool = False) -> CommitRefused | None:
    """Read the witness and the deployment marker; return a refusal unless no other leader has taken over since.

    ``is_ours`` says that the last segment was read before this, and has the head that this leader left there. Without
    that, and with neither of the two, this cannot be known: to continue then takes a lease that holds, and a new term.
    Raises `BackendError`.
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
    """Get a version on which the segment can be written: that of ``found``, or a new one. Raises `BackendError`."""
    if found is None:
        await recreate(maps, memory, segment)
        return
    adopt(segment, found)
    if found.immutable and found.data != segment.data:
        await delete(maps, found)
        await recreate(maps, memory, segment)


async def delete(maps: Maps, found: ConfigMap) -> None:
    """Delete an immutable ConfigMap, on the condition that it is unchanged since it was read. Raises `BackendError`.

    A finalizer could keep the altered ConfigMap without limit, so its finalizers are removed first.
    """
    metadata = found.metadata
    log.warning("somebody altered the ConfigMap %s and made it immutable; it is deleted and made anew", metadata.name)
    if metadata.finalizers:
        answer = await maps.replace(msgspec.structs.replace(metadata, finalizers=[]), found.data, found.frozen)
        metadata = metadata_of(answer, f"take the finalizers out of the ConfigMap {metadata.name}")
    answer = await maps.delete(metadata)
    if answer.status == 409:
        raise StorageUnavailable(f"somebody keeps changing the ConfigMap {metadata.name}")
    if not answer.done and answer.status != 404:
        raise backend_error(answer, f"delete the immutable ConfigMap {metadata.name}")


async def recreate(maps: Maps, memory: ChainMemory, segment: Segment) -> None:
    """Make a deleted segment again, without its owners and finalizers: either may be why it was deleted.

    If another program made it at the same time, that is the next conflict. If the creation is committed late, it has
    this leader's last state under its own term; if the segments that count have moved on, it is garbage below them.
    Raises `BackendError`.
    """
    name = memory.layout.segment(segment.number)
    log.warning("somebody deleted the ConfigMap %s while it was in use; it is made again from memory", name)
    kept = Metadata(name=name, labels=segment.metadata.labels, annotations=segment.metadata.annotations)
    answer = await maps.create(memory.layout.marked(kept, segment.head.encoded(name)), segment.data)
    if not exists_already(answer):
        segment.metadata = metadata_of(answer, f"make the ConfigMap {name} again")
        segment.frozen = None


async def rewrite(maps: Maps, memory: ChainMemory, segment: Segment) -> None:
    """Write a segment as it is in memory; one that is already so stays untouched. Raises `BackendError`.

    A conflict raises as well: the next check looks again.
    """
    name = memory.layout.segment(segment.number)
    marked = memory.layout.marked(segment.metadata, segment.head.encoded(name))
    answer = await maps.replace(marked, segment.data, segment.frozen)
    segment.metadata = metadata_of(answer, f"restore the ConfigMap {segment.metadata.name}")


def adopt(segment: Segment, found: ConfigMap) -> None:
    """Continue from the version found, keep its labels, annotations, owners and finalizers, and log the foreign
    change.
    """
    name, kept = segment.metadata.name, segment.metadata
    if decode(found.metadata.annotations.get(HEAD), found.metadata.name) != segment.head:
        log.warning("somebody replaced the head of the ConfigMap %s; it is restored from memory", name)
    if found.data != segment.data:
        keys = sorted(_altered(found.data, segment.data))
        log.warning(
            "somebody altered %d records in the ConfigMap %s; they are restored from memory: %s",
            len(keys),
            name,
            ", ".join(keys[:_SHOWN]),
        )
    if found.immutable and segment.frozen is None:
        log.warning("somebody made the ConfigMap %s immutable; groups go on in the next one", name)
    if _marks(found.metadata) != _marks(kept):
        log.info("somebody changed labels, annotations, owners or finalizers of the ConfigMap %s; they are kept", name)
    segment.metadata, segment.frozen = found.metadata.check(), found.frozen


def exists_already(answer: ApiAnswer) -> bool:
    """Return whether nothing was created because the name is taken."""
    return answer.status == 409 and answer.reason == ALREADY_EXISTS


def _altered(found: dict[str, str], meant: dict[str, str]) -> Iterable[str]:
    return (key for key in found.keys() | meant.keys() if found.get(key) != meant.get(key))


def _marks(metadata: Metadata) -> tuple[object, ...]:
    annotations = {name: text for name, text in metadata.annotations.items() if name != HEAD}
    return metadata.labels, annotations, metadata.owner_references, metadata.finalizers
