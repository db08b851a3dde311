"""Remembers a journal as its leader knows it: all entries, the segment of each, and the effect of a group on them.

Groups are written only to the highest segment. So of several copies of a record, the one in the highest segment counts,
and an entry needs no revision. A deletion leaves a tombstone while an older segment has a copy of the record.

Compaction begins at the oldest segment. With each group, some entries of that segment that still count are written
again to the highest one. The write that moves the last such entry also records that the next segment is now the oldest;
after that the old one may be deleted. So the segments that count stay one range without gaps, and compaction needs no
writes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from milepost_backends.contract import Change, Head
from milepost_backends.kubernetes.configmaps.chain import Chain, Segment
from milepost_backends.kubernetes.configmaps.entries import is_tombstone, key_of, size_of, value_of
from milepost_backends.kubernetes.configmaps.head import SegmentHead, WitnessAnnotation
from milepost_backends.kubernetes.configmaps.objects import ConfigMapLayout, Metadata
from milepost_backends.kubernetes.configmaps.stamps import Stamp

CAP: Final = 32 * 1024
"""The most bytes of entries in a segment, unless a single group has more."""

_FLOOR: Final = 4 * CAP
"""The bytes that the segments of a journal may always take, however few entries still count."""
_WASTE: Final = 4
"""The most bytes of all segments, as a multiple of the bytes of the entries that count.

The waste saves writes: most files of a checkpoint are deleted soon after they were written, and their entries are then
never written again.
"""
_LARGE_WASTE: Final = 2
_LARGE_SPARE: Final = 8 * 1024 * 1024
"""The bytes that a large journal may take beyond `_LARGE_WASTE` times the space of the entries that count."""
_LEAST_TAKEN: Final = 8 * 1024
_OVER_THE_CAP: Final = 4 * 1024
_MOST_DROPPED: Final = 8
"""The most segments that become garbage with one write. Each of them costs a request that deletes it."""


@dataclass(frozen=True, slots=True)
class PendingSegment:
    """What is being written to the last segment, whose number is ``number``: a head and entries.

    If this seals the segment, ``then`` is the next segment, which takes the next group.
    """

    number: int
    head: SegmentHead
    data: dict[str, str]
    size: int
    then: Segment | None = None


class ChainMemory:
    """A journal under ``head``, as this process last wrote it.

    ``live`` is the bytes of the entries that count, and ``space`` the bytes of all entries. ``dropped`` has segments
    that no longer count; a caller that takes one from it must delete it. ``in_doubt`` has the contents of the last
    segment that were sent and may have been committed. For ``witness`` and ``mark`` see `Stamp`.
    """

    def __init__(self, layout: ConfigMapLayout, chain: Chain) -> None:
        self.layout = layout
        self.head: Head = chain.head
        self.first = chain.first
        self.last = chain.last
        self.segments = chain.segments
        self.spare = chain.spare
        self.dropped: list[Metadata] = list(chain.leftovers)
        self.undeleted = 0
        """The number of segments that should have been deleted and still existed at the last check."""
        self.in_doubt: list[PendingSegment] = []
        self.witness = chain.witness
        self.mark = Stamp(layout.deployment_marker)
        self._lineages = {chain.head.lineage}
        self.is_superseded = False
        """Whether another leader has written since this memory's head, so that the memory is outdated."""
        self.space = sum(segment.size for segment in chain.segments.values())
        self.live = 0
        self._places: dict[str, list[int]] = {}
        for number, segment in chain.segments.items():
            for key in segment.data:
                self._places.setdefault(key, []).append(number)
        for key in self._places:
            self.live += self._live_size(key)

    @property
    def tail(self) -> Segment:
        """Return the last segment of the journal, which takes the next group."""
        return self.segments[self.last]

    def is_behind(self, recorded: WitnessAnnotation | SegmentHead | Head) -> bool:
        """Return whether ``recorded`` is from a later leader, which had loaded everything that is in this memory.

        ``recorded`` is a stored head, or what the annotation of a ConfigMap says. A later term at an earlier revision
        is from a leader that was paused, and then wrote its outdated memory.
        """
        return (
            recorded.lineage != self.head.lineage
            and recorded.term >= self.head.term
            and recorded.revision > self.head.revision
        )

    def knows(self, head: Head) -> bool:
        """Return whether this memory has everything that was committed under ``head`` and before it.

        ``head`` must be of a term of this process's present leadership.
        """
        return head.lineage in self._lineages and self.head.revision >= head.revision and not self.is_superseded

    def newest(self, key: str) -> int | None:
        """Return the number of the highest segment with an entry for the record ``key``; None if there is none."""
        places = self._places.get(key)
        return places[-1] if places else None

    def records(self) -> Iterator[Change]:
        """Yield every record that counts now. Writes during the iteration have no effect on it."""
        newest = [(key, self.segments[places[-1]].data[key]) for key, places in self._places.items()]
        for key, text in newest:
            if not is_tombstone(text) and (record := key_of(key, text)) is not None:
                yield Change(record, value_of(text))

    def patched(self, entries: Mapping[str, str]) -> dict[str, str]:
        """Return the entries of the last segment, as they are after the changes ``entries``.

        A tombstone is left out if no older segment has a copy of its record any more.
        """
        data = {
            key: text
            for key, text in self.tail.data.items()
            if key not in entries and (not is_tombstone(text) or self._older(key))
        }
        data.update((key, text) for key, text in entries.items() if not is_tombstone(text) or self._older(key))
        return data

    def committed(self, pending: PendingSegment, metadata: Metadata) -> None:
        """Note that the content ``pending`` was committed to the last segment, which now has this ``metadata``.

        No other pending content can be committed any more, since it is conditional on the previous version.
        """
        tail = self.tail
        self.in_doubt.clear()
        before, tail.data = tail.data, pending.data
        for key in before.keys() | pending.data.keys():
            old, new = before.get(key), pending.data.get(key)
            if old != new:
                self._moved(key, old, new)
        self.space += pending.size - tail.size
        tail.size, tail.head, tail.metadata = pending.size, pending.head, metadata
        self.head = pending.head.of(self.layout.journal)
        self._lineages.add(self.head.lineage)
        while self.first < pending.head.first:
            self._drop()
        if pending.then is not None:
            self.last, self.spare = pending.then.number, None
            self.segments[pending.then.number] = pending.then

    def grown(self, entries: Mapping[str, str]) -> int:
        """Return the bytes of all entries that count (``live``), as they would be after these entries are written."""
        return self.live + sum(_live(key, text) - self._live_size(key) for key, text in entries.items())

    # -- private ---------------------------------------------------------------------------------------------------

    def _older(self, key: str) -> bool:
        places = self._places.get(key)
        return places is not None and places[0] < self.last

    def _moved(self, key: str, old: str | None, new: str | None) -> None:
        """Update the totals for the entry ``key`` of the last segment, which changes from ``old`` to ``new`` (None: no
        entry).
        """
        self.live -= self._live_size(key) if old is None else _live(key, old)
        places = self._places.setdefault(key, [])
        if old is None:
            places.append(self.last)
        elif new is None:
            places.pop()
        if not places:
            del self._places[key]
        self.live += self._live_size(key)

    def _live_size(self, key: str) -> int:
        places = self._places.get(key)
        return _live(key, self.segments[places[-1]].data[key]) if places else 0

    def _drop(self) -> None:
        """Forget the oldest segment: its entries that count were written again to a later segment."""
        segment = self.segments.pop(self.first)
        for key in segment.data:
            places = self._places[key]
            places.remove(self.first)
            if not places:
                del self._places[key]
        self.space -= segment.size
        self.dropped.append(segment.metadata)
        self.first += 1


def _live(key: str, text: str) -> int:
    return 0 if is_tombstone(text) else size_of(key, text)


def allowed_space(live: int) -> int:
    """Return how many bytes all segments of a journal may take, if the entries that count take ``live`` bytes."""
    return max(_FLOOR, min(_WASTE * live, _LARGE_WASTE * live + _LARGE_SPARE))


def compact(memory: ChainMemory, data: dict[str, str], size: int, written: int) -> tuple[int, int]:
    """Add entries of the oldest segments to ``data``, the next content of the last segment, which has ``size`` bytes.

    Return the oldest segment that counts after that, and the new size of ``data``. ``written`` is the bytes of the
    group that is in ``data``. About as many bytes are moved as the group has, so that the waste does not grow. If the
    last segment is already full, a few are moved all the same, so that the waste shrinks. The first entry is moved
    whatever its size.
    """
    most = allowed_space(memory.live)
    alone = written if size - written <= CAP else 0  # compaction moves as many bytes as a very large group has
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
