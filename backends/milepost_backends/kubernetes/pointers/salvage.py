"""Make a journal again of what is left of a damaged one, once its owner has accepted the loss of the rest.

Every entry that is there is kept, since each record proves itself to whoever reads it. A missing segment becomes one
without entries. The journal goes on well above every revision that anything names.
"""

from __future__ import annotations

import logging
from typing import Final

from milepost_backends.contract import NO_RECORDS, Head, JournalDamaged
from milepost_backends.kubernetes.configmaps.chain import Chain, Segment, SegmentListing
from milepost_backends.kubernetes.configmaps.head import EMPTY, SegmentHead, SegmentState, active, sealed
from milepost_backends.kubernetes.configmaps.objects import Metadata

log = logging.getLogger("milepost.kubernetes")

_MOST_MISSING: Final = 256
_AHEAD: Final = 1_000_000
"""The journal goes on so many revisions later: more than may have been lost."""


def salvaged(listed: SegmentListing, damage: JournalDamaged) -> Chain:
    """Return the journal without what is lost. Raises ``damage`` if what is left is too little for a journal."""
    layout = listed.layout
    what = str(damage).partition(". To go on")[0]  # how to accept it was said before
    log.error("accepted as the loss %s of journal %r, which goes on without it: %s", damage.loss, layout.journal, what)
    held = sorted(number for number, recorded in listed.heads.items() if recorded is not EMPTY)
    held = held or [max(listed.found, default=0) + 1]
    readable = {number: recorded for number in held if (recorded := listed.heads.get(number)) is not None}
    newest = max(readable.values(), key=lambda recorded: (recorded.term, recorded.revision), default=None)
    top = readable.get(held[-1])
    first = top.first if top is not None else _oldest(held, newest)
    last = held[-1] + (top is not None and top.state is SegmentState.SEALED)
    if last - first - len(held) > _MOST_MISSING:
        raise damage
    head = _going_on(listed, newest)
    segments, to_rewrite = {}, []
    for number in range(first, last + 1):
        found = listed.found.get(number)
        recorded = listed.heads.get(number)
        metadata = Metadata(name=layout.segment(number)) if found is None else found.metadata.check()
        segment = Segment(number, metadata, EMPTY, frozen=None if found is None else found.frozen)
        segment.hold({} if found is None else found.data)
        data = segment.data
        segment.head = active(head, first, data) if number == last else sealed(head, first, number + 1, data)
        if recorded is None or (
            recorded.state is not segment.head.state and not (number == last and recorded is EMPTY)
        ):
            to_rewrite.append(number)
        elif number < last or recorded is EMPTY:
            segment.head = recorded
        segments[number] = segment
    leftovers = [item.metadata for number, item in sorted(listed.found.items()) if number < first]
    spare = listed.found.get(last + 1)
    is_spare = spare is not None and listed.heads[last + 1] is EMPTY
    following = Segment(last + 1, spare.metadata.check(), EMPTY) if spare is not None and is_spare else None
    return Chain(head, first, last, segments, following, leftovers, listed.witness, tuple(to_rewrite))


def _oldest(held: list[int], newest: SegmentHead | None) -> int:
    return held[0] if newest is None else max(held[0], newest.first)


def _going_on(listed: SegmentListing, newest: SegmentHead | None) -> Head:
    term, revision = max(listed.past, (0, 0) if newest is None else (newest.term, newest.revision))
    lineage, digest = ("salvaged", NO_RECORDS) if newest is None else (newest.lineage, newest.digest)
    return Head(listed.layout.journal, max(term, 1), revision + _AHEAD, lineage, digest)
