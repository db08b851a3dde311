"""Writes a group: one PUT of the last segment, or of the next one once the last is sealed.

The head of the journal is in the annotations of the segment that takes the group. So records and head move in one
atomic write, conditional on the version that this leader wrote or listed last. No group depends on a POST: the next
segment is made beforehand.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from milepost_backends.contract import (
    BackendError,
    Change,
    Commit,
    CommitRefused,
    Done,
    Head,
    Refusal,
    StorageFull,
    StorageUnavailable,
    Unknown,
)
from milepost_backends.kubernetes.configmaps.chain import Segment
from milepost_backends.kubernetes.configmaps.entries import encode, size_of
from milepost_backends.kubernetes.configmaps.head import EMPTY, active, decode, sealed
from milepost_backends.kubernetes.configmaps.maps import Maps, metadata_of
from milepost_backends.kubernetes.configmaps.memory import CAP, ChainMemory, PendingSegment, compact
from milepost_backends.kubernetes.configmaps.objects import HEAD, Metadata
from milepost_backends.kubernetes.errors import ApiAnswer, Fate, NotSent
from milepost_backends.kubernetes.pointers.repair import delete, deposed, exists_already, repair

log = logging.getLogger("milepost.kubernetes")

_SEAL_FROM: Final = CAP // 4
_SEAL_AT_LAST: Final = CAP * 3 // 4
_SEGMENTS: Final = 512
_LARGEST_GROUP: Final = 900 * 1024
"""The most bytes of a group's entries; a ConfigMap takes 1 MiB."""
_BEYOND: Final = 8 * CAP
"""The most bytes of the last segment while the next one cannot be made."""
_LEAST_UNDELETED: Final = 256
"""The least number of overdue deletions of segments at which groups are refused."""
_SLACK: Final = 17 / 16
"""The factor by which a journal may exceed its limit for groups that make room."""
_ATTEMPTS: Final = 5
"""The most attempts at a group while another program edits the ConfigMap."""


async def commit(
    maps: Maps, memory: ChainMemory, changes: Sequence[Change], after: Head, spare_made: Callable[[], Awaitable[None]]
) -> Commit:
    """Write a group that moves the head in ``memory`` to ``after``; see `PointerStore.commit`.

    A group that does not fit into the last segment takes two writes, of which the first only seals that segment. So a
    group that nearly fills the segment also seals it, and therefore waits for the next segment (``spare_made``).
    """
    entries = dict(encode(key, value) for key, value in changes)
    if (excess := _excess(maps, memory, entries)) is not None:
        return excess
    for _ in range(_ATTEMPTS):
        end = await _group(maps, memory, entries, after, spare_made)
        if not isinstance(end, _Frozen):
            return end
    return CommitRefused(Refusal.FAILED, f"somebody keeps making {memory.layout.journal!r}'s ConfigMaps immutable")


async def make_spare(maps: Maps, memory: ChainMemory) -> None:
    """Make the segment that will follow the last one, or use an existing one. Raises `BackendError`."""
    number = memory.last + 1
    name = memory.layout.segment(number)
    answer = await maps.create(memory.layout.marked(Metadata(name=name), EMPTY.encoded(name)), {})
    if exists_already(answer):
        metadata = await _emptied(maps, memory, name)
    else:
        metadata = metadata_of(answer, f"create the ConfigMap {name}")
    if memory.last + 1 == number:  # unless a group that could not wait has already made the segment
        memory.spare = Segment(number, metadata, EMPTY)


async def _emptied(maps: Maps, memory: ChainMemory, name: str) -> Metadata:
    """Return the metadata of an empty segment for the next number; empty an existing segment that was changed.

    While this process leads, the segment cannot contain another leader's group. A ConfigMap without Milepost's labels
    is not touched. Raises `BackendError`.
    """
    found = await maps.read(name, data=True)
    recorded = None if found is None else decode(found.metadata.annotations.get(HEAD), name)
    if found is not None and recorded is EMPTY:
        return found.metadata.check()
    ours = found is not None and found.metadata.labels.items() >= memory.layout.labels.items()
    if found is None or recorded is not None or not ours or await deposed(maps, memory) is not None:
        raise StorageUnavailable(f"the ConfigMap {name} is in the way: it is not an empty segment of a journal")
    log.warning("somebody changed the ConfigMap %s, the empty next segment; it is emptied again", name)
    if found.immutable:
        await delete(maps, found)
        raise StorageUnavailable(f"the ConfigMap {name} was immutable and is deleted; it is made again next")
    answer = await maps.replace(memory.layout.marked(found.metadata, EMPTY.encoded(name)), {})
    return metadata_of(answer, f"empty the ConfigMap {name}")


def _excess(maps: Maps, memory: ChainMemory, entries: Mapping[str, str]) -> CommitRefused | None:
    """Return why the group is more than the journal may hold; a group that does not enlarge it is always accepted."""
    written = _size(entries)
    if written > _LARGEST_GROUP:
        return CommitRefused(Refusal.TOO_LARGE, f"the group takes {written} bytes of a ConfigMap")
    most, live = maps.client.address.most_bytes * _SLACK, memory.grown(entries)
    few = max(_LEAST_UNDELETED, maps.client.address.most_bytes // CAP)
    if memory.undeleted > (few if live > memory.live else 2 * few):
        return CommitRefused(
            Refusal.FULL,
            f"{memory.undeleted} ConfigMaps of {memory.layout.journal!r} that no longer count cannot be deleted (the"
            " log says why), and etcd must not fill up with them",
        )
    if live > max(most, memory.live):
        return CommitRefused(
            Refusal.FULL,
            f"the records take {memory.live} bytes and may take {most:.0f} at most, and the group would make it {live}",
        )
    return None


async def _group(
    maps: Maps,
    memory: ChainMemory,
    entries: Mapping[str, str],
    after: Head,
    spare_made: Callable[[], Awaitable[None]],
) -> Commit | _Frozen:
    data, written = memory.patched(entries), _size(entries)
    size = _size(data)
    if size >= _SEAL_AT_LAST:
        await spare_made()
    is_full = memory.tail.data and size > CAP and not _goes_beyond(memory, entries, size)
    if memory.tail.frozen is not None or is_full:
        if (end := await _sealed(maps, memory)) is not None:
            return end
        data = memory.patched(entries)
        size = _size(data)
    first = memory.first
    if size <= _BEYOND or not memory.tail.data:
        first, size = compact(memory, data, size, written)
    spare = memory.spare if size >= _sealed_from(memory, written) else None
    moved = active(after, first, data) if spare is None else sealed(after, first, spare.number, data)
    end = await _written(maps, memory, PendingSegment(memory.last, moved, data, size, spare))
    return Done(memory.head) if end is None else end


def _goes_beyond(memory: ChainMemory, entries: Mapping[str, str], size: int) -> bool:
    """Return whether a group still goes into the last segment, although that is full, because the next one is missing.

    Each write sends the whole segment. So a segment may grow to `_BEYOND` bytes, and to `_LARGEST_GROUP` by groups that
    do not enlarge the journal.
    """
    return memory.spare is None and size <= (_BEYOND if memory.grown(entries) > memory.live else _LARGEST_GROUP)


async def _sealed(maps: Maps, memory: ChainMemory) -> Commit | _Frozen | None:
    """Seal the last segment as it is, and continue in the next one; return None if that succeeded."""
    try:
        if memory.spare is None:
            await make_spare(maps, memory)
    except BackendError as error:
        return _refused(error)
    spare = memory.spare
    assert spare is not None
    data = memory.tail.data
    head = sealed(memory.head, memory.first, spare.number, data)
    return await _written(maps, memory, PendingSegment(memory.last, head, data, memory.tail.size, spare))


async def _written(maps: Maps, memory: ChainMemory, pending: PendingSegment) -> Commit | _Frozen | None:
    """Replace the last segment by the pending segment; return None if that succeeded, and ``memory`` knows of it.

    The pending segment stays in `ChainMemory.in_doubt` until it is known whether it was committed or never will be.
    """
    memory.in_doubt.append(pending)
    end = await _sent(maps, memory, pending)
    if end is not None and not isinstance(end, Unknown):
        memory.in_doubt.remove(pending)
    return end


async def _sent(maps: Maps, memory: ChainMemory, pending: PendingSegment) -> Commit | _Frozen | None:
    """Send the pending segment, and handle conflicts as `milepost_backends.kubernetes.pointers.repair` explains; see
    `_written`.
    """
    segment = memory.tail
    name = memory.layout.segment(segment.number)
    for _ in range(_ATTEMPTS):
        try:
            marked = memory.layout.marked(segment.metadata, pending.head.encoded(name))
            answer = await maps.replace(marked, pending.data, segment.frozen)
            if answer.done:
                memory.committed(pending, metadata_of(answer, f"write the ConfigMap {name}"))
                return None
        except (NotSent, StorageFull) as error:
            return _refused(error)
        except BackendError as error:
            return Unknown(str(error))
        if answer.is_out_of_space:
            return await _sent_without_room(maps, memory, pending, answer)
        if (end := _end_of(answer)) is not None:
            return end
        try:
            end = await repair(maps, memory, segment, pending.head)
        except BackendError as error:
            return _refused(error)
        if end is not None:
            return end
        if segment.frozen is not None and pending.data != segment.data:
            return _Frozen()
    return CommitRefused(Refusal.FAILED, f"somebody keeps changing the ConfigMap {name}")


async def _sent_without_room(
    maps: Maps, memory: ChainMemory, pending: PendingSegment, answer: ApiAnswer
) -> Commit | None:
    """Find out whether a pending segment was committed for which etcd answered that it has no space left; return None
    if it was.

    etcd has answered, so a read now shows the outcome of the write: the segment has the pending segment's head, or is
    at the version on which the pending segment was conditional. If it is neither, another program wrote it, before the
    pending segment or after.
    """
    segment = memory.tail
    name = memory.layout.segment(segment.number)
    unknown = (
        f"the Kubernetes API answers {answer}, and what {name} has now does not show whether the group was committed"
    )
    try:
        found = await maps.read(name, data=True)
    except BackendError as error:
        return Unknown(f"{unknown}: {error}")
    if found is None:
        return Unknown(unknown)
    if decode(found.metadata.annotations.get(HEAD), name) == pending.head and found.data == pending.data:
        log.warning("etcd has no space left, and wrote %s all the same: the group was committed", name)
        memory.committed(pending, found.metadata.check())
        return None
    if found.metadata.resource_version == segment.metadata.resource_version:
        return CommitRefused(answer.refusal, f"the Kubernetes API answers {answer}")
    return Unknown(unknown)


class _Frozen:
    """The last segment was made immutable: it takes no more groups, but can be sealed as it is."""


def _sealed_from(memory: ChainMemory, written: int) -> int:
    """Return the bytes at which the last segment is sealed, after a group of ``written`` bytes.

    Every group writes the whole last segment again, so a small segment costs fewer bytes; but a large journal in small
    segments has many of them. A group that fills half a segment by itself is enough: the next one is probably as large.
    """
    enough = min(max(_SEAL_FROM, memory.live // _SEGMENTS), _SEAL_AT_LAST)
    return enough // 2 if written >= enough // 2 else enough


def _end_of(answer: ApiAnswer) -> Commit | None:
    """Return the outcome of a group from an answer other than success; None for a conflict, which must be examined."""
    if answer.fate is Fate.UNKNOWN:
        return Unknown(f"the Kubernetes API answers {answer}")
    if answer.status in (404, 409) or answer.is_of_immutable:
        return None
    return CommitRefused(answer.refusal, f"the Kubernetes API answers {answer}")


def _refused(error: BackendError) -> CommitRefused:
    """Return the refusal of a group that was not sent, or of which only a preparation was."""
    return CommitRefused(Refusal.FULL if isinstance(error, StorageFull) else Refusal.FAILED, str(error))


def _size(data: Mapping[str, str]) -> int:
    return sum(size_of(key, text) for key, text in data.items())
