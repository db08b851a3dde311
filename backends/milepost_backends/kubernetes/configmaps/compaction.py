"""Compact a journal from its oldest segment on: with each group, some entries that still count there are written again.

The write that moves the last of these entries also says that the next segment is now the oldest, after which the old
one may be deleted. So the segments that count stay one range without gaps, and no write is made for compaction alone.
"""

from __future__ import annotations

from typing import Final

from milepost_backends.kubernetes.configmaps.entries import is_tombstone, size_of
from milepost_backends.kubernetes.configmaps.memory import ChainMemory

CAP: Final = 32 * 1024
"""A segment holds so many bytes of entries at most, except for a group that is larger by itself."""

_FLOOR: Final = 4 * CAP
"""A journal may always take as much space as this, however little of it counts."""
_WASTE: Final = 4
"""A journal may take so many times the space of what counts: most files of a checkpoint are dead soon after they were
written, and what is dead by then need not be written again.
"""
_LARGE_WASTE: Final = 2
_LARGE_SPARE: Final = 8 * 1024 * 1024
"""A large journal may take only so many times the space, and so many bytes more."""
_LEAST_TAKEN: Final = 8 * 1024
_OVER_THE_CAP: Final = 4 * 1024
_MOST_DROPPED: Final = 8
"""One write gives up at most so many segments: each is a deletion to be made."""


def allowed_space(live: int) -> int:
    """Return how many bytes a journal may take, of which so many count."""
    return max(_FLOOR, min(_WASTE * live, _LARGE_WASTE * live + _LARGE_SPARE))


def compact(memory: ChainMemory, data: dict[str, str], size: int, written: int) -> tuple[int, int]:
    """Add entries of the oldest segments to ``data``, which the last segment will hold.

    Return the oldest segment that counts after that, and the new size. ``written`` is the bytes of the group. About as
    many bytes are moved as the group brings, so that the waste does not grow. Where the last segment is full already, a
    few are moved all the same, so that the waste shrinks whatever the size of groups. The first entry is moved in any
    case, however large it is.
    """
    most = allowed_space(memory.live)
    alone = written if size - written <= CAP else 0  # a group as large as a segment takes along as much as it brings
    budget = min(max(_LEAST_TAKEN, written), max(CAP - size, _OVER_THE_CAP, alone))
    first, space, taken = memory.first, memory.space, 0
    while first < memory.last and first - memory.first < _MOST_DROPPED and space > most:
        segment = memory.segments[first]
        for key, text in segment.data.items():
            if is_tombstone(text) or key in data or memory.newest(key) != first:
                continue
            entry = size_of(key, text)
            if taken and taken + entry > budget:
                return first, size + taken
            data[key] = text
            taken += entry
        space -= segment.size
        first += 1
    return first, size + taken
