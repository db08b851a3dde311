"""Varints: seven bits in each byte, the lowest first, and the top bit set in all bytes but the last (LEB128).

Only the shortest form of a number is one, so that a number has one form.
"""

from __future__ import annotations

from milepost.state.errors import CoderError

MOST_BYTES = 10


def write_varint(number: int) -> bytes:
    """Turn a number of at most 64 bits, not negative, into a varint."""
    if number < 0x80:
        return bytes((number,))
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def read_varint(data: bytes, start: int = 0) -> tuple[int, int]:
    """Return the number that begins at ``start``, and where it ends. Raises `CoderError`."""
    number = 0
    for index, byte in enumerate(data[start : start + MOST_BYTES]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if (byte == 0 and index > 0) or number >= 1 << 64:
                raise CoderError("a varint is longer than its number needs")
            return number, start + index + 1
    raise CoderError("a varint has no end")
