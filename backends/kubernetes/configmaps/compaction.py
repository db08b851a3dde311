"""Compact a journal from its old end: groups take along what still counts of the oldest segment, until nothing does.

The write that takes the last of it also says that the next segment is the oldest, and the old one may be deleted. So
the segments that count stay one range without gaps, and no write is made for compaction alone.
"""

from __future__ import annotations

from typing import Final

from backends.kubernetes.configmaps.entries import is_tombstone, size_of
from backends.kubernetes.configmaps.memory import ChainMemory

CAP: Final = 32 * 1024
"""A segment holds so many bytes of entries at most, except for a group that is larger by itself."""

_FLOOR: Final = 4 * CAP
"""A journal may always take as much space as this, however little of it counts."""
_WASTE: Final = 2
"""A journal may take so many times the space of what counts."""
_LEAST_TAKEN: Final = 8 * 1024
_OVER_THE_CAP: Final = 4 * 1024
_MOST_DROPPED: Final = 8
"""One write gives up at most so many segments: each is a deletion to be made."""


def compact(memory: ChainMemory, data: dict[str, str], size: int, written: int) -> tuple[int, int]:
    """Add entries of the oldest segments to ``data``, which the last segment will hold.

    Return the oldest segment that counts after that, and the new size. ``written`` is the bytes of the group. As much
    is taken along as a group brings, so that the waste does not grow; beyond the cap a little is, so that the waste
    shrinks whatever the groups are like; and any one entry is, however large.
    """
    budget = min(max(_LEAST_TAKEN, written), max(CAP - size, _OVER_THE_CAP))
    first, space, taken = memory.first, memory.space, 0
    while first < memory.last and first - memory.first < _MOST_DROPPED and space > max(_FLOOR, _WASTE * memory.live):
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
