"""How a group is written: one PUT of the last segment, or of a fresh one once the last is sealed.

The head of the journal lies in the annotations of the segment that takes the group, so records and head move in one
atomic act, conditional on the version that this leader wrote or listed last. No group rides on a POST: the segment that
comes next is made beforehand.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from backends.contract import (
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
from backends.kubernetes.configmaps.chain import Segment
from backends.kubernetes.configmaps.compaction import CAP, compact
from backends.kubernetes.configmaps.entries import encode, size_of
from backends.kubernetes.configmaps.head import EMPTY, active, decode, sealed
from backends.kubernetes.configmaps.maps import Maps, metadata_of
from backends.kubernetes.configmaps.memory import ChainMemory, SegmentDraft
from backends.kubernetes.configmaps.objects import HEAD, Metadata
from backends.kubernetes.errors import ApiAnswer, Fate, NotSent
from backends.kubernetes.pointers.repair import delete, deposed, exists_already, repair

log = logging.getLogger("milepost.kubernetes")

_SEAL_FROM: Final = CAP // 4
_SEAL_AT_LAST: Final = CAP * 3 // 4
_SEGMENTS: Final = 256
_LARGEST_GROUP: Final = 900 * 1024
"""Bytes of a group's entries. A ConfigMap takes 1 MiB."""
_BEYOND: Final = 8 * CAP
"""Bytes in the last segment while the next one cannot be made."""
_LEAST_LEFT: Final = 256
"""Segments that should be gone and are not: so many at the least before anything is refused for it."""
_SLACK: Final = 17 / 16
"""Beyond what the journal should hold at the most: for who makes room."""
_ATTEMPTS: Final = 5
"""While somebody edits the ConfigMap under the leader's hands."""


async def commit(
    maps: Maps, memory: ChainMemory, changes: Sequence[Change], after: Head, spare_made: Callable[[], Awaitable[None]]
) -> Commit:
    """Write a group that moves the head in ``memory`` to ``after``, and ``memory`` with it; see `PointerStore.commit`.

    A group that does not fit into the last segment takes two writes, of which the first only seals that. So one that
    nearly fills it seals it by the way, which is worth waiting for the next segment (``spare_made``).
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
    """Make the segment that will follow the last one, or find it made. Raises `BackendError`."""
    number = memory.last + 1
    name = memory.layout.segment(number)
    answer = await maps.create(memory.layout.marked(Metadata(name=name), EMPTY.encoded(name)), {})
    if exists_already(answer):
        metadata = await _emptied(maps, memory, name)
    else:
        metadata = metadata_of(answer, f"create the ConfigMap {name}")
    if memory.last + 1 == number:  # a group that could not wait for this may have made it by itself
        memory.spare = Segment(number, metadata, EMPTY)


async def _emptied(maps: Maps, memory: ChainMemory, name: str) -> Metadata:
    """Of what stands where the next segment is to be: an empty one, or one that somebody garbled, which is put right.

    While this process leads nobody else's group can be in that. What does not carry our labels is not touched. Raises
    `BackendError`.
    """
    found = await maps.read(name, data=True)
    told = None if found is None else decode(found.metadata.annotations.get(HEAD), name)
    if found is not None and told is EMPTY:
        return found.metadata.check()
    ours = found is not None and found.metadata.labels.items() >= memory.layout.labels.items()
    if found is None or told is not None or not ours or await deposed(maps, memory) is not None:
        raise StorageUnavailable(f"the ConfigMap {name} is in the way: it is no empty segment of a journal")
    log.warning("the ConfigMap %s, empty as yet, was changed by somebody; it is put right", name)
    if found.immutable:
        await delete(maps, found)
        raise StorageUnavailable(f"the ConfigMap {name} was made immutable, and is to be made anew")
    answer = await maps.replace(memory.layout.marked(found.metadata, EMPTY.encoded(name)), {})
    return metadata_of(answer, f"put right the ConfigMap {name}")


def _excess(maps: Maps, memory: ChainMemory, entries: Mapping[str, str]) -> CommitRefused | None:
    """Why the group is more than there may be. What makes the journal no larger is always taken."""
    written = _size(entries)
    if written > _LARGEST_GROUP:
        return CommitRefused(Refusal.TOO_LARGE, f"the group takes {written} bytes of a ConfigMap")
    most, live = maps.client.address.most_bytes * _SLACK, memory.grown(entries)
    few = max(_LEAST_LEFT, maps.client.address.most_bytes // CAP)
    if memory.left > (few if live > memory.live else 2 * few):
        return CommitRefused(
            Refusal.FULL,
            f"{memory.left} ConfigMaps of {memory.layout.journal!r} that no longer count cannot be deleted, as the log"
            " tells, and etcd must not fill up with them",
        )
    if live > max(most, memory.live):
        return CommitRefused(
            Refusal.FULL,
            f"the records take {memory.live} bytes, at the very most they may take {most:.0f}, and the group would make"
            f" that {live}",
        )
    return None


async def _group(
    maps: Maps,
    memory: ChainMemory,
    entries: Mapping[str, str],
    after: Head,
    spare_made: Callable[[], Awaitable[None]],
) -> Commit | _Frozen:
    data = memory.patched(entries)
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
    if size <= _BEYOND:
        first, size = compact(memory, data, size, _size(entries))
    spare = memory.spare if size >= _sealed_from(memory) else None
    moved = active(after, first, data) if spare is None else sealed(after, first, spare.number, data)
    end = await _written(maps, memory, SegmentDraft(memory.last, moved, data, size, spare))
    return Done(memory.head) if end is None else end


def _goes_beyond(memory: ChainMemory, entries: Mapping[str, str], size: int) -> bool:
    """Whether the group goes into the last segment though that is full, since the next one cannot be made for now.

    It costs more bytes each time, and what makes the journal no larger has room in it for longer.
    """
    return memory.spare is None and size <= (_BEYOND if memory.grown(entries) > memory.live else _LARGEST_GROUP)


async def _sealed(maps: Maps, memory: ChainMemory) -> Commit | _Frozen | None:
    """Seal the last segment as it is, and go on in the next one. None: done."""
    try:
        if memory.spare is None:
            await make_spare(maps, memory)
    except BackendError as error:
        return _refused(error)
    spare = memory.spare
    assert spare is not None
    data = memory.tail.data
    head = sealed(memory.head, memory.first, spare.number, data)
    return await _written(maps, memory, SegmentDraft(memory.last, head, data, memory.tail.size, spare))


async def _written(maps: Maps, memory: ChainMemory, draft: SegmentDraft) -> Commit | _Frozen | None:
    """Let the last segment become the draft. None: done, and ``memory`` knows.

    Until it is known to have landed, or that it never will, it stays among the doubts of ``memory``.
    """
    memory.doubts.append(draft)
    end = await _sent(maps, memory, draft)
    if end is not None and not isinstance(end, Unknown):
        memory.doubts.remove(draft)
    return end


async def _sent(maps: Maps, memory: ChainMemory, draft: SegmentDraft) -> Commit | _Frozen | None:
    """The same. See `kubernetes_repair` on conflicts."""
    segment = memory.tail
    name = memory.layout.segment(segment.number)
    for _ in range(_ATTEMPTS):
        try:
            marked = memory.layout.marked(segment.metadata, draft.head.encoded(name))
            answer = await maps.replace(marked, draft.data, segment.frozen)
            if answer.done:
                memory.landed(draft, metadata_of(answer, f"write the ConfigMap {name}"))
                return None
        except (NotSent, StorageFull) as error:
            return _refused(error)
        except BackendError as error:
            return Unknown(str(error))
        if (end := _end_of(answer)) is not None:
            return end
        try:
            end = await repair(maps, memory, segment, draft.head)
        except BackendError as error:
            return _refused(error)
        if end is not None:
            return end
        if segment.frozen is not None and draft.data != segment.data:
            return _Frozen()
    return CommitRefused(Refusal.FAILED, f"somebody keeps changing the ConfigMap {name}")


class _Frozen:
    """The last segment was made immutable: it takes no group any more, but can be sealed as it is."""


def _sealed_from(memory: ChainMemory) -> int:
    """How many bytes in the last segment are enough to seal it.

    Every group writes the whole last segment again, so a small one costs fewer bytes; but a large journal in small
    segments is many of them.
    """
    return min(max(_SEAL_FROM, memory.live // _SEGMENTS), _SEAL_AT_LAST)


def _end_of(answer: ApiAnswer) -> Commit | None:
    """What an answer other than success means for the group; None for a conflict, which has to be looked into."""
    if answer.fate is Fate.UNKNOWN:
        return Unknown(f"the Kubernetes API answers {answer}")
    if answer.status in (404, 409) or answer.is_of_immutable:
        return None
    return CommitRefused(answer.refusal, f"the Kubernetes API answers {answer}")


def _refused(error: BackendError) -> CommitRefused:
    """Of a group that was not sent, or only what comes before it."""
    return CommitRefused(Refusal.FULL if isinstance(error, StorageFull) else Refusal.FAILED, str(error))


def _size(data: Mapping[str, str]) -> int:
    return sum(size_of(key, text) for key, text in data.items())
