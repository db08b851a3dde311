"""Writes byte strings and numbers one after the other, so that a reader finds the end of each.

Escaped byte strings still sort: each ends with 00 01, and a 00 inside is written as 00 FF. Varints have seven bits in
each byte, the lowest first, and the top bit set in all bytes but the last (LEB128). Only the shortest form of a number
is valid, so each number has one form.
"""

from __future__ import annotations

from milepost.state.errors import CoderError

_END = b"\x00\x01"

MOST_BYTES = 10


def write_escaped(data: bytes) -> bytes:
    """Return the byte string with 00 FF in place of each 00, followed by the end mark 00 01, so that `read_escaped`
    finds its end.
    """
    return data.replace(b"\x00", b"\x00\xff") + _END


def read_escaped(data: bytes, start: int) -> tuple[bytes, int]:
    """Return the byte string that `write_escaped` wrote at ``start``, and the position behind its end mark. Raises
    `CoderError` for bytes that it never writes.
    """
    found = bytearray()
    while True:
        zero = data.find(b"\x00", start)
        if zero < 0 or zero + 1 == len(data):
            raise CoderError("a part has no end")
        found += data[start:zero]
        start = zero + 2
        if data[zero:start] == _END:
            return bytes(found), start
        if data[zero + 1] != 0xFF:
            raise CoderError("a part has a zero that is not marked")
        found.append(0)


def write_varint(number: int) -> bytes:
    """Turn a non-negative number of at most 64 bits into a varint."""
    if number < 0x80:
        return bytes((number,))
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def read_varint(data: bytes, start: int = 0) -> tuple[int, int]:
    """Return the number that `write_varint` wrote at ``start``, and the position behind it. Raises `CoderError` for
    other bytes.
    """
    number = 0
    for index, byte in enumerate(data[start : start + MOST_BYTES]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if (byte == 0 and index > 0) or number >= 1 << 64:
                raise CoderError("a varint is longer than its number needs")
            return number, start + index + 1
    raise CoderError("a varint has no end")
