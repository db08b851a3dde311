"""Stored records prove themselves: each begins with a checksum over its key and its content.

The hash of a stored record is that checksum, as a number. The digest of a journal is the sum of the hashes of all its
records, which a leader keeps up to date with each change, and which whoever loads the journal compares with what was
found: no record is missing, none is an older copy, and none is a stranger's. A sum, since a chain of digests over all
changes could only be checked by who has all changes; and a record whose content was damaged still adds its own
checksum, so that it spoils the proof of no other record.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_BYTES: Final = 16
_MODULUS: Final = 1 << (8 * _BYTES)
_SEALED: Final = re.compile(rb'\{"check":"([0-9a-f]{32})",')
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


def hash_of(key: str, value: bytes) -> int:
    """What a stored record, readable or not, adds to the digest of its journal."""
    found = _SEALED.match(value)
    return int(found[1], 16) if found else int(_check(key, value), 16)


def digest_of(total: int, count: int) -> str:
    """The digest of ``count`` records whose hashes add up to ``total``."""
    return f"{count:x}-{total % _MODULUS:032x}"


def count_in(digest: str) -> str:
    """The number of records that a digest tells, as it stands in it."""
    return digest.partition("-")[0]


def _check(key: str, content: bytes) -> str:
    return hashlib.blake2b(key.encode("utf-8", "backslashreplace") + b"\n" + content, digest_size=_BYTES).hexdigest()
