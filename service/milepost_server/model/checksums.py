"""Seal stored records with checksums, and keep the digest that proves all of them together.

Each stored record begins with a checksum of its key and its content. The hash of a record is this checksum as a number.
The digest of a journal is the sum of the hashes of all its records. A leader updates the digest with each change. A
replica that loads the journal compares the digest with the loaded records; if they match, no record is missing, none is
an older copy, and none was put there by another program.

The digest is a sum, so that it can be checked with the records alone; a chain of digests would need all changes. If one
record is damaged, its right hash is the difference between the sum and the hashes of the others. So a damaged record
does not prevent the proof of the others.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

_BYTES: Final = 16
MODULUS: Final = 1 << (8 * _BYTES)
_MASK: Final = MODULUS - 1
_SEALED: Final = re.compile(rb'\{"check":"([0-9a-f]{32})",')
_DIGEST: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]{32})(?:-([0-9a-f]+))?")
_PREFIX_LENGTH: Final = len(b'{"check":"",') + 2 * _BYTES


def seal(key: str, content: bytes) -> bytes:
    """Return the stored form of a record's JSON: the same object with its checksum as the first member."""
    return b"".join((b'{"check":"', _check(key, content).encode(), b'",', content[1:]))


def unseal(key: str, value: bytes) -> bytes:
    """Return the JSON of a sealed record. Raises a `ValueError` that says what is wrong with the record."""
    found = _SEALED.match(value)
    if found is None:
        raise ValueError("it does not begin with a checksum")
    content = b"{" + value[_PREFIX_LENGTH:]
    if _check(key, content).encode() != found[1]:
        raise ValueError("its checksum is wrong, so it was altered, or belongs to another key")
    return content


def is_sealed(key: str, value: bytes) -> bool:
    """Return whether a stored record matches its checksum, even if this release does not know its kind."""
    try:
        unseal(key, value)
    except ValueError:
        return False
    return True


def hash_of(key: str, value: bytes) -> int:
    """Return the hash that a stored record adds to its journal's digest. For a damaged record, this is the hash that it
    states itself.
    """
    found = _SEALED.match(value)
    return int(found[1], 16) if found else int(_check(key, value), 16)


def hash_of_sealed(value: bytes) -> int:
    """Return the hash of a record that `seal` has just returned."""
    return int(value[_PREFIX_LENGTH - 2 * _BYTES - 2 : _PREFIX_LENGTH - 2], 16)


def digest_of(records: int, total: int) -> str:
    """Return the digest of a journal whose records are all known, as a head has it."""
    return f"{records:x}-{total & _MASK:032x}"


class Digest(NamedTuple):
    """The number of a journal's records and, modulo 2**128, the sum of their hashes.

    ``lost`` counts records that are gone, but whose hashes are still in the sum. Such a record was damaged together
    with others. When it was replaced or removed, its own hash was not known, so it could not be subtracted.
    """

    records: int
    total: int
    lost: int = 0

    def __str__(self) -> str:
        return digest_of(self.records, self.total) + (f"-{self.lost:x}" if self.lost else "")

    @classmethod
    def read(cls, digest: str) -> Digest | None:
        """Return the digest in a head; None if the text is not a digest."""
        found = _DIGEST.fullmatch(digest)
        return cls(*(int(number or "0", 16) for number in found.groups())) if found else None


def _check(key: str, content: bytes) -> str:
    hashed = hashlib.blake2b(key.encode("utf-8", "backslashreplace") + b"\n", digest_size=_BYTES)
    hashed.update(content)
    return hashed.hexdigest()
