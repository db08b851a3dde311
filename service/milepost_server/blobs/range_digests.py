"""The digests of the ranges of a large file: a list, stored in a blob of its own, with which a reader verifies one
range without the rest of the file.

The record of a file has only the digest of the whole file, which cannot verify a part. So the replica that receives the
bytes also computes a digest of each range, and writes the list. The list ends with a seal: a digest over the list, and
over the size and the digest of the whole file. The seal proves that the list is intact and belongs to exactly these
bytes. A list with a wrong seal is ignored, and the file is read as if it had no list.

A stored list is a line of text, the digests, and the seal. Digests and seal are SHA-256, of 32 bytes each.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

RANGE_BYTES: Final = 512 * 1024
"""The size of a range in bytes. A read that begins within a range reads that range from its beginning."""

LISTED_ABOVE_BYTES: Final = 1024 * 1024
"""Files up to this size have no list: they are read completely."""

_DIGEST_BYTES: Final = 32
_HEADER: Final = re.compile(rb"milepost ranges 1 ([1-9][0-9]{0,9})\n")


@dataclass(frozen=True, slots=True)
class RangeDigests:
    """The digests of a file's ranges, one after another. A range has ``range_bytes`` bytes; the last one may be
    shorter.
    """

    range_bytes: int
    digests: bytes

    def proves(self, number: int, data: bytes | memoryview) -> bool:
        """Return whether the digest of range number ``number`` is that of ``data``."""
        at = number * _DIGEST_BYTES
        return hashlib.sha256(data).digest() == self.digests[at : at + _DIGEST_BYTES]

    def sealed(self, size: int, sha256: str) -> bytes:
        """Return the list of these digests as it is stored, with the seal for a file of this size and digest."""
        content = b"milepost ranges 1 %d\n" % self.range_bytes + self.digests
        return content + _seal(content, size, sha256)


def opened(content: bytes, size: int, sha256: str) -> RangeDigests:
    """Return the digests in the stored list ``content``. Raises ValueError unless the list is intact, and is that of a
    file of this size and digest.
    """
    head = _HEADER.match(content)
    if head is None:
        raise ValueError("this is no list of digests, or one of an unknown schema")
    listed, seal = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if seal != _seal(listed, size, sha256):
        raise ValueError("it does not prove itself, or is of other bytes")
    return RangeDigests(int(head[1]), listed[head.end() :])


class RangeHasher:
    """Computes the digests of a file's ranges from its bytes, which come chunk by chunk."""

    def __init__(self, range_bytes: int = RANGE_BYTES) -> None:
        self._range_bytes = range_bytes
        self._digests = bytearray()
        self._begun = hashlib.sha256()
        self._left = range_bytes

    def update(self, chunk: bytes) -> None:
        """Add the next bytes of the file."""
        rest = memoryview(chunk)
        while rest:
            part = rest[: self._left]
            self._begun.update(part)
            self._left -= len(part)
            rest = rest[len(part) :]
            if not self._left:
                self._end_range()

    def digests(self) -> RangeDigests:
        """Return the digests of all ranges. Call this once, after the last `update`."""
        if self._left < self._range_bytes:
            self._end_range()
        return RangeDigests(self._range_bytes, bytes(self._digests))

    def _end_range(self) -> None:
        self._digests += self._begun.digest()
        self._begun, self._left = hashlib.sha256(), self._range_bytes


def _seal(content: bytes, size: int, sha256: str) -> bytes:
    return hashlib.sha256(b"%s\n%s %d" % (content, sha256.encode(), size)).digest()
