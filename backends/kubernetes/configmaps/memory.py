"""What a leader knows of its journal: all entries, where each of them lies, and what a group makes of them.

Of a record's copies the one in the highest segment counts, and groups go to the highest segment only; so an entry
needs no revision. A deletion leaves a tombstone as long as an older segment has a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from backends.contract import Change, Head
from backends.kubernetes.configmaps.chain import Chain, Segment
from backends.kubernetes.configmaps.entries import is_tombstone, key_of, size_of, value_of
from backends.kubernetes.configmaps.head import SegmentHead, WitnessAnnotation
from backends.kubernetes.configmaps.objects import ConfigMapLayout, Metadata
from backends.kubernetes.configmaps.stamps import Stamp


@dataclass(frozen=True, slots=True)
class SegmentDraft:
    """What the segment ``number``, the last one, is to become. ``then``: in which one groups go on after it."""

    number: int
    head: SegmentHead
    data: dict[str, str]
    size: int
    then: Segment | None = None


class ChainMemory:
    """A journal under ``head``, as of its last write.

    ``live`` and ``space``: bytes of the entries that count, and of all. ``dropped``: segments that no longer count, to
    be deleted by whoever takes them from here. ``doubts``: what was sent, and may have landed or not. ``witness`` and
    ``mark``: see `Stamp`.
    """

    def __init__(self, layout: ConfigMapLayout, chain: Chain) -> None:
        self.layout = layout
        self.head: Head = chain.head
        self.first = chain.first
        self.last = chain.last
        self.segments = chain.segments
        self.spare = chain.spare
        self.dropped: list[Metadata] = list(chain.leftovers)
        self.left = 0
        """How many of them were to be deleted and are still there, as of the last check."""
        self.doubts: list[SegmentDraft] = []
        self.witness = chain.witness
        self.mark = Stamp(layout.founding)
        self._lineages = {chain.head.lineage}
        self.is_past = False
        """Whether another leader was proven to have written since: then this proves nothing any more."""
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
        """The segment that takes the next group."""
        return self.segments[self.last]

    def is_behind(self, told: WitnessAnnotation | SegmentHead | Head) -> bool:
        """Whether somebody who knew all this has led since.

        A later term at an earlier revision is the work of who was paused, and has put back what it remembered.
        """
        return told.lineage != self.head.lineage and told.term >= self.head.term and told.revision > self.head.revision

    def knows(self, head: Head) -> bool:
        """Whether this goes back to that head of the same leadership, perhaps by terms that were taken since."""
        return head.lineage in self._lineages and self.head.revision >= head.revision and not self.is_past

    def newest(self, key: str) -> int | None:
        """The segment whose copy counts."""
        places = self._places.get(key)
        return places[-1] if places else None

    def records(self) -> Iterator[Change]:
        """Every record that counts, as of now, whatever is written while they are looked at."""
        newest = [(key, self.segments[places[-1]].data[key]) for key, places in self._places.items()]
        for key, text in newest:
            if not is_tombstone(text) and (record := key_of(key, text)) is not None:
                yield Change(record, value_of(text))

    def patched(self, entries: Mapping[str, str]) -> dict[str, str]:
        """The last segment's entries once these are among them.

        A tombstone that has nothing to hide goes, and so does one whose older copies are gone by now.
        """
        data = {
            key: text
            for key, text in self.tail.data.items()
            if key not in entries and (not is_tombstone(text) or self._older(key))
        }
        data.update((key, text) for key, text in entries.items() if not is_tombstone(text) or self._older(key))
        return data

    def landed(self, draft: SegmentDraft, metadata: Metadata) -> None:
        """The last segment has become this, and its metadata is that; so nothing else that was sent can land."""
        tail = self.tail
        self.doubts.clear()
        before, tail.data = tail.data, draft.data
        for key in before.keys() | draft.data.keys():
            old, new = before.get(key), draft.data.get(key)
            if old != new:
                self._moved(key, old, new)
        self.space += draft.size - tail.size
        tail.size, tail.head, tail.metadata = draft.size, draft.head, metadata
        self.head = draft.head.of(self.layout.journal)
        self._lineages.add(self.head.lineage)
        while self.first < draft.head.first:
            self._drop()
        if draft.then is not None:
            self.last, self.spare = draft.then.number, None
            self.segments[draft.then.number] = draft.then

    def grown(self, entries: Mapping[str, str]) -> int:
        """``live`` once these entries are there."""
        return self.live + sum(_live(key, text) - self._live_size(key) for key, text in entries.items())

    # -- within ----------------------------------------------------------------------------------------------------

    def _older(self, key: str) -> bool:
        places = self._places.get(key)
        return places is not None and places[0] < self.last

    def _moved(self, key: str, old: str | None, new: str | None) -> None:
        """The last segment's copy became another one, or came, or went."""
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
        """The oldest segment counts no more: what it had that counted was written again."""
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
