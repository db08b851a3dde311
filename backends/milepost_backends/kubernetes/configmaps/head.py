"""Encodes and checks the annotations of a journal's ConfigMaps: of its segments, which have the records, and of the
witness.

The annotation of a segment has its journal's head, its place in the chain of segments, and its state. The text of each
annotation ends in a checksum over the text and the name of its ConfigMap. So a text that was altered, or copied to
another ConfigMap, is not valid. The annotation of a segment also has a checksum of the segment's entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from milepost_backends.contract import NO_RECORDS, Head

_SCHEMA: Final = 2
_SUM_BYTES: Final = 16


class SegmentState(Enum):
    """The states of a segment, which is a ConfigMap with records of a journal.

    ``empty``: made beforehand, and not written to yet. ``active``: takes groups. ``sealed``: groups continue in the
    next segment.
    """

    EMPTY = "empty"
    ACTIVE = "active"
    SEALED = "sealed"


class SegmentHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation ``milepost/head`` of a segment, a ConfigMap with records of a journal.

    ``first`` is the number of the oldest segment that counts; older ones are garbage. ``next`` is the number of the
    segment that follows a sealed one. ``digest`` is that of the journal, see `Head`; ``entries`` is the checksum of the
    segment's own entries. A journal that was never taken over has term 0.
    """

    schema: int
    state: SegmentState
    term: int = 0
    revision: int = 0
    lineage: str = ""
    first: int = 0
    next: int = 0
    digest: str = NO_RECORDS
    entries: str = ""

    def of(self, journal: str) -> Head:
        """Return the head of ``journal`` that this annotation contains."""
        return Head(journal, self.term, self.revision, self.lineage, self.digest)

    def proves(self, data: Mapping[str, str]) -> bool:
        """Return whether ``data``, the entries of the segment, matches the checksum in this annotation."""
        return self.state is SegmentState.EMPTY or self.entries == sum_of(data)

    def encoded(self, name: str) -> str:
        """Return the text of this annotation, for the ConfigMap ``name``."""
        return _checked(self, name)


class _Stored(SegmentHead, frozen=True):
    check: str = ""


EMPTY: Final = SegmentHead(_SCHEMA, SegmentState.EMPTY)


def first() -> SegmentHead:
    """Return the annotation of the first segment of a journal that was never taken over."""
    return SegmentHead(_SCHEMA, SegmentState.ACTIVE, first=1, entries=sum_of({}))


def active(head: Head, first: int, data: Mapping[str, str]) -> SegmentHead:
    """Return the annotation of a segment that takes more groups, with the entries ``data``.

    ``head`` is the journal's head after the latest group, and ``first`` the number of the oldest segment that counts.
    """
    return SegmentHead(
        _SCHEMA, SegmentState.ACTIVE, head.term, head.revision, head.lineage, first, 0, head.digest, sum_of(data)
    )


def sealed(head: Head, first: int, following: int, data: Mapping[str, str]) -> SegmentHead:
    """Return the annotation of a sealed segment with the entries ``data``, which segment ``following`` follows.

    ``head`` is the journal's head after the segment's last group, and ``first`` the number of the oldest segment that
    counts.
    """
    return SegmentHead(
        _SCHEMA,
        SegmentState.SEALED,
        head.term,
        head.revision,
        head.lineage,
        first,
        following,
        head.digest,
        sum_of(data),
    )


def decode(text: str | None, name: str) -> SegmentHead | None:
    """Return the annotation of a segment that is the ``text``, for the ConfigMap ``name``; None if the text is not
    valid.
    """
    try:
        stored = msgspec.json.decode(text or "", type=_Stored)
    except msgspec.MsgspecError:
        return None
    head = SegmentHead(*msgspec.structs.astuple(stored)[:-1])
    if head.schema != _SCHEMA or stored.check != _check(head, name):
        return None
    if head.state is SegmentState.EMPTY:
        return EMPTY
    number = int(name.rpartition("-")[2])
    taken_over = head.term > 0 and head.revision > 0 and bool(head.lineage)
    unused = head.term == head.revision == 0 and not head.lineage
    in_place = 1 <= head.first <= number and head.next == (number + 1 if head.state is SegmentState.SEALED else 0)
    return head if in_place and (taken_over or unused) else None


class WitnessAnnotation(msgspec.Struct, frozen=True):
    """The annotation of the witness and of the deployment marker: the last take-over of the journal, and a revision.

    The leader writes the marker only at a take-over. It also writes the witness after groups, with a short delay.
    """

    schema: int
    term: int
    revision: int
    lineage: str

    @classmethod
    def of(cls, head: Head) -> WitnessAnnotation:
        """Return the annotation of a witness that records the term, lineage and revision of ``head``."""
        return cls(_SCHEMA, head.term, head.revision, head.lineage)

    @classmethod
    def decode(cls, text: str | None, name: str) -> WitnessAnnotation | None:
        """Return the annotation of a witness that is the ``text``, for the ConfigMap ``name``; None if the text is not
        valid.
        """
        try:
            stored = msgspec.json.decode(text or "", type=_StoredWitness)
        except msgspec.MsgspecError:
            return None
        witness = cls(*msgspec.structs.astuple(stored)[:-1])
        sound = witness.schema == _SCHEMA and witness.term > 0 and bool(witness.lineage)
        return witness if sound and stored.check == _check(witness, name) else None

    def encoded(self, name: str) -> str:
        """Return the text of this annotation, for the ConfigMap ``name``."""
        return _checked(self, name)

    def is_of(self, head: Head) -> bool:
        """Return whether this annotation and ``head`` have the same term and lineage."""
        return (self.term, self.lineage) == (head.term, head.lineage)


class _StoredWitness(WitnessAnnotation, frozen=True):
    check: str = ""


def sum_of(data: Mapping[str, str]) -> str:
    """Return the checksum of a segment's entries."""
    digest = hashlib.blake2b(digest_size=_SUM_BYTES)
    for key, text in sorted(data.items()):
        digest.update(f"{len(key)}:{key}{len(text)}:{text}".encode())
    return digest.hexdigest()


def _checked(recorded: SegmentHead | WitnessAnnotation, name: str) -> str:
    return f'{msgspec.json.encode(recorded).decode()[:-1]},"check":"{_check(recorded, name)}"}}'


def _check(recorded: SegmentHead | WitnessAnnotation, name: str) -> str:
    return hashlib.blake2b(name.encode() + b"\n" + msgspec.json.encode(recorded), digest_size=_SUM_BYTES).hexdigest()
