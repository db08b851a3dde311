"""Byte strings one behind the other that still sort: each ends with 00 01, and a 00 inside is written as 00 FF."""

from __future__ import annotations

from milepost.state.errors import CoderError

_END = b"\x00\x01"


def write_escaped(data: bytes) -> bytes:
    """Return the bytes with their end marked."""
    return data.replace(b"\x00", b"\x00\xff") + _END


def read_escaped(data: bytes, start: int) -> tuple[bytes, int]:
    """Return the byte string that begins at ``start``, and where the next begins. Raises `CoderError`."""
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
