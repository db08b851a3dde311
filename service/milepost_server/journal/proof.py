"""The hashes of all records of a journal, and their sum, which proves that the loaded records are the committed ones.

`milepost_server.model.checksums` defines the hashes and their sum. A `Proof` already includes the changes of the groups
in flight, as the view does.

A damaged record counts with the hash that it had before the damage, so that its right content can be put back later. If
only one record is damaged, its hash is the stored sum minus the hashes of the others. If several records are damaged,
only the sum of their hashes is known. This sum stays part of the digest until the last of these records is replaced,
removed or put back. If a record is replaced or removed before that, its old hash stays in the sum; the digest states
the number of such records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from milepost_server.model.checksums import MODULUS, Digest, digest_of, hash_of, hash_of_sealed

UNKNOWN: Final = -1
"""The placeholder for the hash of a damaged record whose own hash is not known, since several records are damaged."""

Replaced = dict[str, int | None]
"""The hashes that the records of some keys had before a change; None for a key that had no record."""


class Proof:
    """The hash of each record by its key, and the sum ``total`` of all hashes that are not `UNKNOWN`."""

    def __init__(self) -> None:
        self.hashes: dict[str, int] = {}
        self.total = 0
        self._unknown: set[str] = set()
        self._residue = 0  # the sum of the hashes of damaged records whose own hashes are not known
        self._summed = 0  # how many hashes are added up in `_residue`

    @property
    def digest(self) -> str:
        """The digest of all records, in the form in which a head stores it."""
        if not self._unknown:
            return digest_of(len(self.hashes), self.total)
        return str(Digest(len(self.hashes), self.total + self._residue, self._summed - len(self._unknown)))

    def apply(self, changes: Iterable[tuple[str, bytes | None]]) -> Replaced:
        """Update the hashes for changed records: each key with the new stored bytes, None for a deletion. Return the
        hashes that were replaced, with which `put_back` undoes the changes.
        """
        return {key: self._set(key, None if value is None else hash_of(key, value)) for key, value in changes}

    def apply_sealed(self, changes: Mapping[str, bytes | None]) -> Replaced:
        """Do as `apply` does, for records that were sealed right before."""
        if self._unknown:
            return self.apply(changes.items())
        hashes, total, replaced = self.hashes, self.total, Replaced()
        for key, value in changes.items():
            if value is None:
                replaced[key] = before = hashes.pop(key, None)
            else:
                replaced[key] = before = hashes.get(key)
                hashes[key] = hashed = hash_of_sealed(value)
                total += hashed
            if before is not None:
                total -= before
        self.total = total
        return replaced

    def count(self, hashes: Iterable[tuple[str, int | None]]) -> Replaced:
        """Set the hash of each key, None for a deleted record. Return the hashes that were replaced, with which
        `put_back` undoes the changes.
        """
        return {key: self._set(key, hashed) for key, hashed in hashes}

    def put_back(self, replaced: Mapping[str, int | None]) -> None:
        """Undo the last changes; ``replaced`` is what `apply` or `count` returned for them."""
        for key, hashed in replaced.items():
            self._set(key, hashed)

    def mark_unknown(self, damaged: Iterable[str], total: int, lost: int = 0) -> None:
        """Note that the right hashes of the ``damaged`` records are not known individually.

        Before this call, the proof counts them with the hashes that the damaged records state. ``total`` is the right
        sum over all records. ``lost`` is the number of records that are gone, but whose hashes are still part of
        ``total``.
        """
        for key in damaged:
            self._set(key, UNKNOWN)
        self._residue, self._summed = total - self.total, len(self._unknown) + lost
        self._infer_the_last()

    def mark_known(self, key: str, hashed: int) -> None:
        """Note that a record which was marked unknown was put back, so that its hash ``hashed`` is known again."""
        self._residue -= hashed
        self._summed -= 1
        self._set(key, hashed)
        self._infer_the_last()

    def _infer_the_last(self) -> None:
        """If the sum of the unknown hashes is that of one record, take it as the hash of the last damaged record."""
        if self._summed == 1:
            for key in list(self._unknown):
                self._set(key, self._residue % MODULUS)

    def _set(self, key: str, hashed: int | None) -> int | None:
        before = self.hashes.pop(key, None)
        if before == UNKNOWN:
            self._unknown.remove(key)
        else:
            self.total -= before or 0
        if hashed is not None:
            self.hashes[key] = hashed
        if hashed == UNKNOWN:
            self._unknown.add(key)
        else:
            self.total += hashed or 0
        return before
