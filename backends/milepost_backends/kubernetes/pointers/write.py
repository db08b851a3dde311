"""Writes a group: one PUT of the last segment, or of the next one once the last is sealed.

The head of the journal is in the annotations of the segment that takes the group. So one atomic write changes records
and head, on the condition that the segment still has the version that this leader wrote or listed last. No group
depends on a POST: the next segment is made beforehand.
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
"""The most bytes of the last segment while the next segment cannot be made."""
_LEAST_UNDELETED: Final = 256
"""The number of garbage segments whose deletion is overdue, at which groups are refused. More are allowed in a large
journal.
"""
_SLACK: Final = 17 / 16
"""The factor by which groups that free room may exceed the limit of a journal's bytes."""
_ATTEMPTS: Final = 5
"""The most attempts at a group while another program edits the ConfigMap."""


async def commit(
    maps: Maps, memory: ChainMemory, changes: Sequence[Change], after: Head, spare_made: Callable[[], Awaitable[None]]
) -> Commit:
    """Write a group that moves the head in ``memory`` to ``after``; see `PointerStore.commit`.

    If the group does not fit into the last segment, a first write seals this segment, and a second one writes the group
    to the next segment. To avoid two writes, a group that nearly fills the segment also seals it. Such a group needs
    the next segment, and waits for it by ``spare_made``.
    """
    entries = dict(encode(key, value) for key, value in changes)
    if (excess := _excess(maps, memory, entries)) is not None:
        return excess
    for _ in range(_ATTEMPTS):
        end = await _group(maps, memory, entries, after, spare_made)
        if not isinstance(end, _Frozen):
            return end
    return CommitRefused(
        Refusal.FAILED, f"another program keeps making {memory.layout.journal!r}'s ConfigMaps immutable"
    )


async def make_spare(maps: Maps, memory: ChainMemory) -> None:
    """Make the empty segment after the last one. An existing one is emptied and used. Raises `BackendError`."""
    number = memory.last + 1
    name = memory.layout.segment(number)
    answer = await maps.create(memory.layout.marked(Metadata(name=name), EMPTY.encoded(name)), {})
    if exists_already(answer):
        metadata = await _emptied(maps, memory, name)
    else:
        metadata = metadata_of(answer, f"create the ConfigMap {name}")
    if memory.last + 1 == number:  # otherwise a group has made and used the next segment meanwhile
        memory.spare = Segment(number, metadata, EMPTY)


async def _emptied(maps: Maps, memory: ChainMemory, name: str) -> Metadata:
    """Return the metadata of the next segment ``name``, which exists already, and empty it if another program wrote to
    it.

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
    log.warning("another program changed the ConfigMap %s, the empty next segment; it is emptied again", name)
    if found.immutable:
        await delete(maps, found)
        raise StorageUnavailable(f"the ConfigMap {name} was immutable and is deleted; it is made again next")
    answer = await maps.replace(memory.layout.marked(found.metadata, EMPTY.encoded(name)), {})
    return metadata_of(answer, f"empty the ConfigMap {name}")


def _excess(maps: Maps, memory: ChainMemory, entries: Mapping[str, str]) -> CommitRefused | None:
    """Return the refusal of a group for which the journal has no room; None if there is room.

    A group that does not enlarge the journal always has room.
    """
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
    """Return whether a group goes into the last segment although the segment is full, because the next one is missing.

    Each write sends the whole segment, so its size is limited: to `_BEYOND` bytes for a group that enlarges the
    journal, and to `_LARGEST_GROUP` for any other group.
    """
    return memory.spare is None and size <= (_BEYOND if memory.grown(entries) > memory.live else _LARGEST_GROUP)


async def _sealed(maps: Maps, memory: ChainMemory) -> Commit | _Frozen | None:
    """Seal the last segment with its present entries, and continue in the next one.

    Return None on success; otherwise the outcome of the group, or `_Frozen` if the segment is immutable.
    """
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
    """Replace the last segment by ``pending``, also in ``memory``.

    Return None on success; otherwise the outcome of the group, or `_Frozen` if the segment is immutable. The pending
    segment stays in `ChainMemory.in_doubt` while it is unknown whether it was, or will be, committed.
    """
    memory.in_doubt.append(pending)
    end = await _sent(maps, memory, pending)
    if end is not None and not isinstance(end, Unknown):
        memory.in_doubt.remove(pending)
    return end


async def _sent(maps: Maps, memory: ChainMemory, pending: PendingSegment) -> Commit | _Frozen | None:
    """Send ``pending`` as the new content of the last segment.

    Return None on success; otherwise the outcome of the group, or `_Frozen` if the segment is immutable. After a
    conflict the segment is repaired and sent again, see `milepost_backends.kubernetes.pointers.repair`.
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
    return CommitRefused(Refusal.FAILED, f"another program keeps changing the ConfigMap {name}")


async def _sent_without_room(
    maps: Maps, memory: ChainMemory, pending: PendingSegment, answer: ApiAnswer
) -> Commit | None:
    """Find out whether ``pending``, the new content of the last segment, was written although etcd answered that it is
    full.

    Return None if it was written; otherwise the outcome of the group. Since etcd has answered, a read now shows it. If
    the segment has the head of ``pending``, it was written. If the segment still has its previous version, it was not.
    If neither is the case, another program wrote the segment, and the outcome is unknown.
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
    """The result of a write to a segment that was made immutable: the segment can be sealed, but takes no more
    groups.
    """


def _sealed_from(memory: ChainMemory, written: int) -> int:
    """Return the size in bytes from which the last segment is sealed, after a group of ``written`` bytes.

    A small segment costs fewer bytes, since every group writes the whole last segment again. But a large journal should
    not have too many segments. If this group alone fills half of a segment, that half is enough, since the next group
    is probably as large.
    """
    enough = min(max(_SEAL_FROM, memory.live // _SEGMENTS), _SEAL_AT_LAST)
    return enough // 2 if written >= enough // 2 else enough


def _end_of(answer: ApiAnswer) -> Commit | None:
    """Return the outcome of a group whose write got ``answer``, which is not success.

    None means a conflict, whose cause must be found out before the outcome is known.
    """
    if answer.fate is Fate.UNKNOWN:
        return Unknown(f"the Kubernetes API answers {answer}")
    if answer.status in (404, 409) or answer.is_of_immutable:
        return None
    return CommitRefused(answer.refusal, f"the Kubernetes API answers {answer}")


def _refused(error: BackendError) -> CommitRefused:
    """Return the refusal of a group that was not sent, because its request, or one before it, has failed with
    ``error``.
    """
    return CommitRefused(Refusal.FULL if isinstance(error, StorageFull) else Refusal.FAILED, str(error))


def _size(data: Mapping[str, str]) -> int:
    return sum(size_of(key, text) for key, text in data.items())
