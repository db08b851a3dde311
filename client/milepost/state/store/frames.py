"""How the values of one key lie in the bytes of a family with several: each behind its length, a varint.

So values are added by adding bytes at the end, and nobody has to read the values before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from milepost.state.coders.varint import read_varint, write_varint


def framed(values: Iterable[bytes]) -> bytes:
    """Return the bytes that hold these values."""
    return b"".join(part for value in values for part in (write_varint(len(value)), value))


def unframed(data: bytes) -> Iterator[bytes]:
    """Iterate the values that the bytes hold."""
    start = 0
    while start < len(data):
        length, start = read_varint(data, start)
        yield data[start : start + length]
        start += length
