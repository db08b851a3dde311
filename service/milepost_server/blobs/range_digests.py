"""The digests of the ranges of a large file, in a list in a blob beside the file's.

The leader records the digest of the whole file, which verifies a part only for a reader of the whole file. The replica
that takes the bytes in writes the list, in the same pass, and seals it with the size and the digest of the whole. So a
list proves that it is intact and belongs to these exact bytes. A list that does not is ignored: the file is read as one
without a list.

A list is a line of text, the digests, and the seal: SHA-256, 32 bytes each.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

RANGE_BYTES: Final = 512 * 1024
"""The bytes of a range. A read that begins within a range reads that range from its beginning."""

LISTED_ABOVE_BYTES: Final = 1024 * 1024
"""Files up to this size have no list: they are read completely."""

_DIGEST_BYTES: Final = 32
_HEADER: Final = re.compile(rb"milepost ranges 1 ([1-9][0-9]{0,9})\n")


@dataclass(frozen=True, slots=True)
class RangeDigests:
    """The digests of a file's ranges, of ``range_bytes`` bytes each; the last one may be shorter."""

    range_bytes: int
    digests: bytes

    def proves(self, number: int, data: bytes | memoryview) -> bool:
        """Return whether these are the bytes of a range."""
        at = number * _DIGEST_BYTES
        return hashlib.sha256(data).digest() == self.digests[at : at + _DIGEST_BYTES]

    def sealed(self, size: int, sha256: str) -> bytes:
        """Return the stored form of the list, for a file of this size and digest."""
        content = b"milepost ranges 1 %d\n" % self.range_bytes + self.digests
        return content + _seal(content, size, sha256)


def opened(content: bytes, size: int, sha256: str) -> RangeDigests:
    """Return the digests in a stored list. Raises ValueError unless the list is that of a file of this size and
    digest.
    """
    head = _HEADER.match(content)
    if head is None:
        raise ValueError("this is no list of digests, or one of an unknown schema")
    listed, seal = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if seal != _seal(listed, size, sha256):
        raise ValueError("it does not prove itself, or is of other bytes")
    return RangeDigests(int(head[1]), listed[head.end() :])


class RangeHasher:
    """Computes the digests of a file's ranges while its bytes pass."""

    def __init__(self, range_bytes: int = RANGE_BYTES) -> None:
        self._range_bytes = range_bytes
        self._digests = bytearray()
        self._begun = hashlib.sha256()
        self._left = range_bytes

    def update(self, chunk: bytes) -> None:
        """Take the next bytes."""
        rest = memoryview(chunk)
        while rest:
            part = rest[: self._left]
            self._begun.update(part)
            self._left -= len(part)
            rest = rest[len(part) :]
            if not self._left:
                self._end_range()

    def digests(self) -> RangeDigests:
        """Return the digests once all bytes have passed."""
        if self._left < self._range_bytes:
            self._end_range()
        return RangeDigests(self._range_bytes, bytes(self._digests))

    def _end_range(self) -> None:
        self._digests += self._begun.digest()
        self._begun, self._left = hashlib.sha256(), self._range_bytes


def _seal(content: bytes, size: int, sha256: str) -> bytes:
    return hashlib.sha256(b"%s\n%s %d" % (content, sha256.encode(), size)).digest()
