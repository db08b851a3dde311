"""The proof that what was loaded is what was committed: hashes of all records, and their sum.

See `service.rules.checksums` for what is summed up. A `Proof` goes with the view: each group in flight counts in it.

A record that was damaged counts with the hash that it had, so that it may be put back. Of one alone this is what the
sum lacks. Of several only the sum of their hashes is known: it stays in the digest until the last of them was replaced,
removed or put back. If one of them goes before, its hash stays behind in that sum, which is said in the digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from service.rules.checksums import MODULUS, Digest, hash_of

UNTOLD: Final = -1
"""Stands for the hash of a record of which only the sum with others is known."""

Replaced = dict[str, int | None]
"""The hashes that some keys had before; None: there was no record."""


class Proof:
    """The hash of each record, by its key; some may be `UNTOLD`. ``total``: the sum of the others."""

    def __init__(self) -> None:
        self.hashes: dict[str, int] = {}
        self.total = 0
        self._untold: set[str] = set()
        self._residue = 0
        self._summed = 0  # so many hashes are in the residue

    @property
    def digest(self) -> str:
        """The digest of all records, as a head has it."""
        if not self._untold:
            return str(Digest(len(self.hashes), self.total))
        return str(Digest(len(self.hashes), self.total + self._residue, self._summed - len(self._untold)))

    def apply(self, changes: Iterable[tuple[str, bytes | None]]) -> Replaced:
        """Count changes in; what is returned takes them back by `put_back`."""
        return self.count((key, None if value is None else hash_of(key, value)) for key, value in changes)

    def count(self, hashes: Iterable[tuple[str, int | None]]) -> Replaced:
        """The same with hashes that are known already."""
        return {key: self._set(key, hashed) for key, hashed in hashes}

    def put_back(self, replaced: Mapping[str, int | None]) -> None:
        """Take back what was applied last."""
        for key, hashed in replaced.items():
            self._set(key, hashed)

    def leave_open(self, damaged: Iterable[str], total: int, lost: int = 0) -> None:
        """These records, which were counted with what they say of themselves, had hashes that make the sum of all
        ``total``. ``lost``: so many others, which are gone, count in that.
        """
        for key in damaged:
            self._set(key, UNTOLD)
        self._residue, self._summed = total - self.total, len(self._untold) + lost
        self._tell_the_last()

    def found_again(self, key: str, hashed: int) -> None:
        """One of those that were left open was put back: its own hash is known, what is left is that of the others."""
        self._residue -= hashed
        self._summed -= 1
        self._set(key, hashed)
        self._tell_the_last()

    def _tell_the_last(self) -> None:
        if self._summed == 1:
            for key in list(self._untold):
                self._set(key, self._residue % MODULUS)

    def _set(self, key: str, hashed: int | None) -> int | None:
        before = self.hashes.pop(key, None)
        if before == UNTOLD:
            self._untold.remove(key)
        else:
            self.total -= before or 0
        if hashed is not None:
            self.hashes[key] = hashed
        if hashed == UNTOLD:
            self._untold.add(key)
        else:
            self.total += hashed or 0
        return before
