"""Reads a listing of a journal's ConfigMaps as a chain of segments.

A segment is a ConfigMap with some of the journal's records. This module finds which segments count, where the journal's
head is, and which segments are garbage.

The segments that count are those with the journal's present records. At any moment they are a range of numbers without
gaps, and all but the last are sealed. A listing shows one moment. So if a listing shows something else, another program
has altered the segments. In that case no replica can lead, because a missing segment may contain the newest epoch.

The highest segment that was written to says which segments count. If that segment is sealed, the next segment takes the
next group. The next segment must exist and be empty, since it is made before the other one is sealed. If it does not
exist, it may have been deleted after groups were written to it. Segments below ``first`` are garbage, and a delayed
request may make more of them.

The witness and the deployment marker were written before the listing. Each names a term and a revision. If the head in
the listing is behind one of them, it is an older copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from milepost_backends.contract import Head, JournalDamaged
from milepost_backends.kubernetes.configmaps.entries import size_of
from milepost_backends.kubernetes.configmaps.head import EMPTY, SegmentHead, SegmentState, decode
from milepost_backends.kubernetes.configmaps.objects import HEAD, NAME, ConfigMap, ConfigMapLayout, Frozen, Metadata
from milepost_backends.kubernetes.configmaps.stamps import Stamp

_REMEDY = "restore it from a backup, with its labels and annotations"


@dataclass(slots=True)
class Segment:
    """A segment, which is one ConfigMap with records of a journal, as it was last read or written.

    ``size`` is the number of bytes of its entries. ``frozen`` is None unless the ConfigMap was made immutable.
    """

    number: int
    metadata: Metadata
    head: SegmentHead
    data: dict[str, str] = field(default_factory=dict)
    size: int = 0
    frozen: Frozen | None = None

    @property
    def is_proven(self) -> bool:
        """Return whether the segment's entries match the checksum in its annotation."""
        return self.head.proves(self.data)

    def hold(self, data: dict[str, str]) -> None:
        """Set the segment's entries in this object, and ``size`` with them. Nothing is written to Kubernetes."""
        self.data = data
        self.size = sum(size_of(key, text) for key, text in data.items())


@dataclass(frozen=True, slots=True)
class Chain:
    """A journal in Kubernetes, as it was listed: a chain of segments, each of which is a ConfigMap.

    ``head`` is the journal's head. ``segments`` are those that count, from ``first`` to ``last``, which takes the next
    group. ``spare`` is the empty segment after ``last``, if it exists. ``leftovers`` can be deleted. For ``witness``
    see `Stamp`. ``to_rewrite`` has the numbers of segments that a take-over must write first, because an owner has
    accepted the loss of their stored content.
    """

    head: Head
    first: int
    last: int
    segments: dict[int, Segment]
    spare: Segment | None
    leftovers: list[Metadata]
    witness: Stamp
    to_rewrite: tuple[int, ...] = ()


@dataclass(slots=True)
class SegmentListing:
    """The ConfigMaps of one journal, as they were listed: its segments by number, its witness, and its deployment
    marker.
    """

    layout: ConfigMapLayout
    found: dict[int, ConfigMap]
    heads: dict[int, SegmentHead | None]
    witness: Stamp
    mark: Stamp | None

    @classmethod
    def of(cls, layout: ConfigMapLayout, items: Iterable[ConfigMap], mark: Stamp | None) -> SegmentListing:
        """Return a listing of the journal, in which the ConfigMaps ``items`` are sorted by what they are.

        ``mark`` is the deployment marker, which was read before the listing; None if it was not read.
        """
        listed = cls(layout, {}, {}, Stamp(layout.witness), mark)
        for item in items:
            name, annotations = item.metadata.name, item.metadata.annotations
            if annotations.get(NAME, layout.journal) != layout.journal:
                continue
            if name == layout.witness:
                listed.witness = Stamp.of(name, item)
            elif (number := layout.number(name)) is not None:
                listed.found[number] = item
                listed.heads[number] = decode(annotations.get(HEAD), name)
        return listed

    @property
    def stamps(self) -> list[Stamp]:
        """Return the witness and the deployment marker of the journal, each only if its ConfigMap exists."""
        stamps = [self.witness, *([] if self.mark is None else [self.mark])]
        return [stamp for stamp in stamps if stamp.metadata is not None]

    @property
    def past(self) -> tuple[int, int]:
        """Return the latest term in the witness and the deployment marker, and the latest revision of that term."""
        return max(
            ((stamp.recorded.term, stamp.recorded.revision) for stamp in self.stamps if stamp.recorded is not None),
            default=(0, 0),
        )

    def holds(self, number: int) -> bool:
        """Return whether groups may have been written to the segment with this number."""
        head = self.heads[number]
        return bool(self.found[number].data) if head is None else head is not EMPTY


def chain_of(layout: ConfigMapLayout, items: Iterable[ConfigMap], mark: Stamp | None = None) -> Chain | None:
    """Return the journal in the listed ConfigMaps ``items``; None if there is none. Raises `JournalDamaged`.

    ``mark`` is the deployment marker, which was read before the listing.
    """
    return chain_in(SegmentListing.of(layout, items, mark))


def chain_in(listed: SegmentListing) -> Chain | None:
    """Return the journal in a listing, as a chain of segments; None if there is no journal. Raises `JournalDamaged`."""
    layout, found, heads = listed.layout, listed.found, listed.heads
    written = [number for number, head in heads.items() if head is not EMPTY]
    if not written:
        if found:
            raise _gone(listed, max(1, max(found) - 1))
        if listed.stamps:
            names = " and ".join(stamp.name for stamp in listed.stamps)
            raise JournalDamaged(
                f"all segments of {layout.journal!r} are gone, but {names} show that it was founded: restore them"
                " from a backup",
                f"all gone {layout.prefix} {listed.past}",
            )
        return None
    top = max(written)
    if heads[top] is None and not listed.holds(top) and _is_active(heads.get(top - 1)):
        # `top` is the next segment, whose head another program damaged: it has no groups before the other one is sealed
        top -= 1
    head = heads[top]
    if head is None:
        raise _unreadable(listed, top)
    last = head.next if head.state is SegmentState.SEALED else top
    segments = {}
    for number in range(head.first, top + 1):
        segments[number] = _counted(listed, number, top)
    if last > top:
        if last not in found:
            raise _gone(listed, last)
        segments[last] = Segment(last, found[last].metadata.check(), EMPTY, frozen=found[last].frozen)
        if found[last].immutable:
            segments[last].hold(found[last].data)  # another program's entries stay in an immutable ConfigMap
    if listed.past > (head.term, head.revision):
        term, revision = listed.past
        names = " or ".join(stamp.name for stamp in listed.stamps)
        raise JournalDamaged(
            f"term {term} has led, and came to revision {revision}, as {names} show, but the newest segment,"
            f" {layout.segment(top)}, is of term {head.term} and revision {head.revision}: an older copy was put in its"
            f" place. {_REMEDY.capitalize()}",
            f"older copy {layout.prefix} {listed.past} {head.encoded(layout.segment(top))}",
        )
    spare = None
    if last + 1 in found and heads[last + 1] is EMPTY:
        spare = Segment(last + 1, found[last + 1].metadata.check(), EMPTY)
    leftovers = [item.metadata for number, item in sorted(found.items()) if number < head.first]
    return Chain(head.of(layout.journal), head.first, last, segments, spare, leftovers, listed.witness)


def _is_active(head: SegmentHead | None) -> bool:
    return head is not None and head.state is SegmentState.ACTIVE


def _counted(listed: SegmentListing, number: int, top: int) -> Segment:
    """Return the segment ``number`` of those that count. Raises `JournalDamaged` if it is missing or not valid.

    ``top`` is the highest segment that was written to.
    """
    layout, found, head = listed.layout, listed.found.get(number), listed.heads.get(number)
    if found is None:
        raise _gone(listed, number)
    if head is None:
        raise _unreadable(listed, number)
    if number < top and head.state is not SegmentState.SEALED:
        raise JournalDamaged(
            f"the ConfigMap {layout.segment(number)}, a part of {layout.journal!r}, is {head.state.value}, although"
            f" {layout.segment(top)} follows it: {_REMEDY}",
            f"not sealed {_evidence(listed, number)}",
        )
    segment = Segment(number, found.metadata.check(), head, frozen=found.frozen)
    segment.hold(found.data)
    return segment


def _gone(listed: SegmentListing, number: int) -> JournalDamaged:
    name = listed.layout.segment(number)
    return JournalDamaged(
        f"the ConfigMap {name}, a part of {listed.layout.journal!r}, is gone or lost its labels: {_REMEDY}",
        f"gone {_evidence(listed, number)}",
    )


def _unreadable(listed: SegmentListing, number: int) -> JournalDamaged:
    found = listed.found[number]
    text = found.metadata.annotations.get(HEAD)
    return JournalDamaged(
        f"the annotation {HEAD} of the ConfigMap {found.metadata.name}, a part of {listed.layout.journal!r}, is not"
        f" valid, or was altered ({text if text is None else text[:200]!r}): {_REMEDY}",
        f"unreadable {_evidence(listed, number)}",
    )


def _evidence(listed: SegmentListing, number: int) -> str:
    """Return the evidence of damage to the segment ``number`` (see `JournalDamaged`).

    It consists of the segment's name and the heads of all segments.
    """
    layout = listed.layout
    heads = [f"{each} {item.metadata.annotations.get(HEAD)}" for each, item in sorted(listed.found.items())]
    return "\n".join([layout.segment(number), *heads])
