"""The chain of segments that a listing shows: which of them count, where the journal's head is, and what is left over.

At any moment the segments that count are a gapless range, sealed but for the last one. A listing is of one moment, so
anything else was done by somebody else's hands, and nobody leads on it: what is missing may be the newest epoch.

The highest segment that was written to says what counts. If it is sealed, the next one is there, empty, and takes the
next group; it was made before that one was sealed, so if it is gone it may have been written to. Whatever lies below
``first`` is garbage, of which a request that was long on its way may make more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from backends.contract import Head, JournalDamaged
from backends.pointers.kubernetes_entries import size_of
from backends.pointers.kubernetes_head import EMPTY, SegmentHead, State, Witness, decode
from backends.pointers.kubernetes_objects import HEAD, NAME, ConfigMap, Layout, Metadata

_REMEDY = "bring it back from a backup, with its labels and annotations"


@dataclass(slots=True)
class Segment:
    """A segment as it was last read or written; ``size`` in bytes of its entries."""

    number: int
    metadata: Metadata
    head: SegmentHead
    data: dict[str, str] = field(default_factory=dict)
    size: int = 0

    def hold(self, data: dict[str, str]) -> None:
        """Have these entries."""
        self.data = data
        self.size = sum(size_of(key, text) for key, text in data.items())


@dataclass(frozen=True, slots=True)
class Chain:
    """A journal as listed.

    ``head``: the journal's. ``segments``: those that count, from ``first`` to ``last``, which takes the next group.
    ``spare``: the one after it, if it was made already. ``leftovers`` can be deleted. ``witness``: the metadata of it,
    and what it says; None where there is none.
    """

    head: Head
    first: int
    last: int
    segments: dict[int, Segment]
    spare: Segment | None
    leftovers: list[Metadata]
    witness: tuple[Metadata, Witness | None] | None


def chain_of(layout: Layout, items: Iterable[ConfigMap]) -> Chain | None:
    """The journal; None if there is none. Raises `JournalDamaged`."""
    heads: dict[int, SegmentHead | None] = {}
    found: dict[int, ConfigMap] = {}
    witness: tuple[Metadata, Witness | None] | None = None
    for item in items:
        name, annotations = item.metadata.name, item.metadata.annotations
        if annotations.get(NAME, layout.journal) != layout.journal:
            continue
        if name == layout.witness:
            witness = item.metadata.check(), Witness.decode(annotations.get(HEAD))
        elif (number := layout.number(name)) is not None:
            found[number] = item
            heads[number] = decode(annotations.get(HEAD), number)
    written = [number for number, head in heads.items() if head is not EMPTY]
    if not written:
        if found:
            raise _gone(layout, max(1, max(found) - 1))
        if witness is not None:
            raise JournalDamaged(
                f"all segments of {layout.journal!r} are gone, but {layout.witness} is there: bring them back from a"
                " backup, or delete that one as well to begin anew"
            )
        return None
    top = max(written)
    head = heads[top]
    if head is None:
        raise _unreadable(layout, found[top])
    if witness is not None and witness[1] is not None and witness[1].term > head.term:
        raise JournalDamaged(
            f"term {witness[1].term} has led, says {layout.witness}, and the newest segment, {layout.segment(top)}, is"
            f" of term {head.term}: an older copy was put in its place. {_REMEDY.capitalize()}; or, to go on from the"
            f" copy without what came after it, write that term into its annotation {HEAD}, and give --epochs-above"
        )
    last = head.next if head.state is State.SEALED else top
    segments = {}
    for number in range(head.first, top + 1):
        segments[number] = _counted(layout, number, found.get(number), heads.get(number), top)
    if last > top:
        if last not in found:
            raise _gone(layout, last)
        segments[last] = Segment(last, found[last].metadata.check(), EMPTY)
    spare = Segment(last + 1, found[last + 1].metadata.check(), EMPTY) if last + 1 in found else None
    leftovers = [item.metadata for number, item in sorted(found.items()) if number < head.first]
    return Chain(head.of(layout.journal), head.first, last, segments, spare, leftovers, witness)


def _counted(layout: Layout, number: int, found: ConfigMap | None, head: SegmentHead | None, top: int) -> Segment:
    """A segment that counts. Raises `JournalDamaged`."""
    if found is None:
        raise _gone(layout, number)
    if head is None:
        raise _unreadable(layout, found)
    if number < top and head.state is not State.SEALED:
        raise JournalDamaged(
            f"the ConfigMap {layout.segment(number)}, a part of {layout.journal!r}, is {head.state.value}, though"
            f" there is {layout.segment(top)}: {_REMEDY}"
        )
    segment = Segment(number, found.metadata.check(), head)
    segment.hold(found.data)
    return segment


def _gone(layout: Layout, number: int) -> JournalDamaged:
    name = layout.segment(number)
    return JournalDamaged(f"the ConfigMap {name}, a part of {layout.journal!r}, is gone or lost its labels: {_REMEDY}")


def _unreadable(layout: Layout, found: ConfigMap) -> JournalDamaged:
    text = found.metadata.annotations.get(HEAD)
    return JournalDamaged(
        f"the annotation {HEAD} of the ConfigMap {found.metadata.name}, a part of {layout.journal!r}, makes no sense"
        f" ({text if text is None else text[:200]!r}): {_REMEDY}"
    )
