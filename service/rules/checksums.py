"""Stored records prove themselves: each begins with a checksum over its key and its content.

The hash of a stored record is that checksum, as a number. The digest of a journal is the sum of the hashes of all its
records, which a leader keeps up to date with each change, and which whoever loads the journal compares with what was
found: no record is missing, none is an older copy, and none is a stranger's. A sum, since a chain of digests over all
changes could only be checked by who has all changes; and what a sum lacks for being right is the hash that a damaged
record had, so that it spoils the proof of no other record.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

_BYTES: Final = 16
MODULUS: Final = 1 << (8 * _BYTES)
_SEALED: Final = re.compile(rb'\{"check":"([0-9a-f]{32})",')
_DIGEST: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]{32})(?:-([0-9a-f]+))?")
_PREFIX_LENGTH: Final = len(b'{"check":"",') + 2 * _BYTES


def seal(key: str, content: bytes) -> bytes:
    """The stored form of a record's JSON: the same object with its checksum as the first member."""
    return b'{"check":"' + _check(key, content).encode() + b'",' + content[1:]


def unseal(key: str, value: bytes) -> bytes:
    """The record's JSON as it was sealed. Raises `ValueError` that says what is wrong."""
    found = _SEALED.match(value)
    if found is None:
        raise ValueError("it does not begin with a checksum")
    content = b"{" + value[_PREFIX_LENGTH:]
    if _check(key, content).encode() != found[1]:
        raise ValueError("its checksum is wrong, so it was altered, or belongs to another key")
    return content


def is_sealed(key: str, value: bytes) -> bool:
    """Whether a stored record proves itself, whatever is in it: this release need not know its kind."""
    try:
        unseal(key, value)
    except ValueError:
        return False
    return True


def hash_of(key: str, value: bytes) -> int:
    """What a stored record adds to the digest of its journal; of one that was damaged, what it says of itself."""
    found = _SEALED.match(value)
    return int(found[1], 16) if found else int(_check(key, value), 16)


class Digest(NamedTuple):
    """What the digest of a journal tells: the number of its records and, modulo 2**128, the sum of their hashes.

    ``lost``: so many records whose hashes are in the sum are no longer there. Each was damaged along with others, of
    which no more than the sum was known when it was replaced or removed.
    """

    records: int
    total: int
    lost: int = 0

    def __str__(self) -> str:
        return f"{self.records:x}-{self.total % MODULUS:032x}" + (f"-{self.lost:x}" if self.lost else "")

    @classmethod
    def read(cls, digest: str) -> Digest | None:
        """What stands in a head; None if that is no digest."""
        found = _DIGEST.fullmatch(digest)
        return cls(*(int(number or "0", 16) for number in found.groups())) if found else None


def _check(key: str, content: bytes) -> str:
    return hashlib.blake2b(key.encode("utf-8", "backslashreplace") + b"\n" + content, digest_size=_BYTES).hexdigest()
