"""Compaction from the old end: groups take along what still counts of the oldest segment, until nothing does.

Then the same write says that the next segment is the oldest, and the old one may be deleted. So the segments that count
stay one gapless range, and no write is made for compaction alone.
"""

from __future__ import annotations

from typing import Final

from backends.kubernetes.configmaps.entries import is_tombstone, size_of
from backends.kubernetes.configmaps.memory import ChainMemory

CAP: Final = 32 * 1024
"""Bytes of entries in a segment, but for a group that is larger than that by itself."""

_FLOOR: Final = 4 * CAP
"""As much space as a journal may take however little of it counts."""
_WASTE: Final = 2
"""So many times what counts may be taken in all."""
_LEAST_TAKEN: Final = 8 * 1024
_OVER_THE_CAP: Final = 4 * 1024
_MOST_DROPPED: Final = 8
"""Segments that one write gives up, at most: each is a deletion to be made."""


def compact(memory: ChainMemory, data: dict[str, str], size: int, written: int) -> tuple[int, int]:
    """Add to ``data``, what the last segment will hold; the oldest segment that counts after that, and the new size.

    ``written``: bytes of the group. As much is taken along as a group brings, so that the waste does not grow; beyond
    the cap a little is, so that it shrinks whatever the groups are like; and any one entry is, however large.
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
