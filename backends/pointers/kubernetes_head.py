"""What a segment is: the head of its journal as of the last group that it took, and its place in the chain."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from backends.contract import NO_RECORDS, Head

_SCHEMA: Final = 1


class State(Enum):
    """``empty``: made beforehand, nothing was written to it yet; ``active``: groups go here; ``sealed``: they go on in
    the next one.
    """

    EMPTY = "empty"
    ACTIVE = "active"
    SEALED = "sealed"


class SegmentHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation ``milepost/head``.

    ``first``: the oldest segment that counts; what is older is garbage. ``next``: the number of the segment that
    follows a sealed one. A journal that was never taken over has term 0.
    """

    schema: int
    state: State
    term: int = 0
    revision: int = 0
    lineage: str = ""
    digest: str = NO_RECORDS
    first: int = 0
    next: int = 0

    def of(self, journal: str) -> Head:
        """The journal's head, as this segment has it."""
        return Head(journal, self.term, self.revision, self.lineage, self.digest)

    def encoded(self) -> str:
        """As it is stored."""
        return msgspec.json.encode(self).decode()


EMPTY: Final = SegmentHead(_SCHEMA, State.EMPTY)
FIRST: Final = SegmentHead(_SCHEMA, State.ACTIVE, first=1)
"""Of the first segment of a journal that nobody has taken over yet."""


def active(head: Head, first: int) -> SegmentHead:
    """Of the segment that took the group which led to ``head``."""
    return SegmentHead(_SCHEMA, State.ACTIVE, head.term, head.revision, head.lineage, head.digest, first)


def sealed(head: Head, first: int, following: int) -> SegmentHead:
    """The same, and no group follows in this one."""
    return SegmentHead(_SCHEMA, State.SEALED, head.term, head.revision, head.lineage, head.digest, first, following)


def decode(text: str | None, number: int) -> SegmentHead | None:
    """What the segment of this number is; None if the annotation makes no sense."""
    try:
        head = msgspec.json.decode(text or "", type=SegmentHead)
    except msgspec.MsgspecError:
        return None
    if head.schema != _SCHEMA:
        return None
    if head.state is State.EMPTY:
        return EMPTY
    taken_over = head.term > 0 and head.revision > 0 and bool(head.lineage)
    unused = head.term == head.revision == 0 and not head.lineage
    in_place = 1 <= head.first <= number and head.next == (number + 1 if head.state is State.SEALED else 0)
    return head if in_place and (taken_over or unused) else None


class Witness(msgspec.Struct, frozen=True):
    """The same annotation of the witness: who took the journal over last."""

    schema: int
    term: int
    lineage: str

    @classmethod
    def of(cls, head: Head) -> Witness:
        """Of a head."""
        return cls(_SCHEMA, head.term, head.lineage)

    @classmethod
    def decode(cls, text: str | None) -> Witness | None:
        """None if it makes no sense."""
        try:
            witness = msgspec.json.decode(text or "", type=cls)
        except msgspec.MsgspecError:
            return None
        return witness if witness.schema == _SCHEMA and witness.term > 0 and witness.lineage else None

    def encoded(self) -> str:
        """As it is stored."""
        return msgspec.json.encode(self).decode()
