"""The proof that what was loaded is what was committed: hashes of all records, and their sum.

See `service.rules.checksums` for what is summed up. A `Proof` goes with the view: each group in flight counts in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from service.rules.checksums import digest_of, hash_of

Replaced = dict[str, int | None]
"""The hashes that some keys had before; None: there was no record."""


class Proof:
    """The hash of each record, by its key."""

    def __init__(self) -> None:
        self.hashes: dict[str, int] = {}
        self._total = 0

    @property
    def digest(self) -> str:
        """The digest of all records, as a head has it."""
        return digest_of(self._total, len(self.hashes))

    def apply(self, changes: Iterable[tuple[str, bytes | None]]) -> Replaced:
        """Count changes in; what is returned takes them back by `put_back`."""
        replaced: Replaced = {}
        for key, value in changes:
            replaced[key] = self._set(key, None if value is None else hash_of(key, value))
        return replaced

    def put_back(self, replaced: Mapping[str, int | None]) -> None:
        """Take back what was applied last."""
        for key, hashed in replaced.items():
            self._set(key, hashed)

    def differing(self, found: Proof) -> list[str]:
        """The keys of records that are not the same, or not there, in ``found``."""
        return [
            key for key in self.hashes.keys() | found.hashes.keys() if self.hashes.get(key) != found.hashes.get(key)
        ]

    def _set(self, key: str, hashed: int | None) -> int | None:
        before = self.hashes.pop(key, None)
        if hashed is not None:
            self.hashes[key] = hashed
        self._total += (hashed or 0) - (before or 0)
        return before
