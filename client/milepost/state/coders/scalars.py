"""Coders of bytes, text, booleans, numbers and points in time."""

from __future__ import annotations

import math
import struct
from datetime import datetime, timedelta, timezone

from milepost.state.coders.coder import Coder, expect, expect_width
from milepost.state.coders.framing import read_varint, write_varint
from milepost.state.errors import CoderError

_FLOAT = struct.Struct(">d")
_BITS = struct.Struct(">Q")
_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_NAN = 0x7FF8 << 48

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


class BytesCoder(Coder[bytes]):
    """Encodes bytes as they are."""

    deterministic = True
    ordered = True

    def encode(self, value: bytes) -> bytes:
        expect(value, bytes, "bytes")
        return value

    def decode(self, data: bytes) -> bytes:
        return bytes(data)


class Utf8Coder(Coder[str]):
    """Encodes text in UTF-8, whose bytes sort by code points, as Python's strings do."""

    deterministic = True
    ordered = True

    def encode(self, value: str) -> bytes:
        expect(value, str, "text")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise CoderError("the text has half of a surrogate pair, which UTF-8 cannot hold") from error

    def decode(self, data: bytes) -> str:
        try:
            return bytes(data).decode()
        except UnicodeDecodeError as error:
            raise CoderError("these bytes are no UTF-8") from error


class BoolCoder(Coder[bool]):
    """Encodes a boolean as one byte, 0 or 1."""

    deterministic = True
    ordered = True
    width = 1

    def encode(self, value: bool) -> bytes:
        expect(value, bool, "a truth value")
        return b"\1" if value else b"\0"

    def decode(self, data: bytes) -> bool:
        if data not in (b"\0", b"\1"):
            raise CoderError("a truth value is one byte, 0 or 1")
        return data == b"\1"


class FixedIntCoder(Coder[int]):
    """Encodes an integer in a fixed number of bytes, the highest first; the sign bit is inverted, so that the bytes
    sort.
    """

    deterministic = True
    ordered = True

    def __init__(self, width: int = 8, *, signed: bool = True) -> None:
        """``width`` is the number of bytes, 1 to 16; without ``signed``, numbers begin at 0."""
        if width not in range(1, 17):
            raise CoderError(f"an integer has 1 to 16 bytes, not {width}")
        self.width = width
        self._offset = 1 << (8 * width - 1) if signed else 0

    def encode(self, value: int) -> bytes:
        expect(value, int, "an integer")
        assert self.width is not None
        try:
            return (value + self._offset).to_bytes(self.width, "big")
        except OverflowError as error:
            raise CoderError(f"the integer does not fit into {self.width} bytes of this coder") from error

    def decode(self, data: bytes) -> int:
        assert self.width is not None
        expect_width(data, self.width, "the integer")
        return int.from_bytes(data, "big") - self._offset


class VarintCoder(Coder[int]):
    """Encodes an integer of 64 bits in one to ten bytes; numbers near zero take fewer. The bytes do not sort as numbers
    do.
    """

    deterministic = True

    def encode(self, value: int) -> bytes:
        expect(value, int, "an integer")
        if not -_SIGN <= value < _SIGN:
            raise CoderError("the integer does not fit into 64 bits")
        return write_varint(value << 1 if value >= 0 else (-value << 1) - 1)

    def decode(self, data: bytes) -> int:
        number, end = read_varint(data)
        if end != len(data):
            raise CoderError("there are bytes behind the integer")
        return -((number + 1) >> 1) if number & 1 else number >> 1


class FloatCoder(Coder[float]):
    """Encodes a double in eight bytes that sort as numbers do. -0.0 becomes 0.0, since the two are equal; all NaNs
    become one NaN, which is greater than every number.
    """

    deterministic = True
    ordered = True
    width = 8

    def encode(self, value: float) -> bytes:
        expect(value, float, "a float")
        (bits,) = _BITS.unpack(_FLOAT.pack(value + 0.0))
        if math.isnan(value):
            bits = _NAN
        return _BITS.pack(bits ^ (_ALL if bits & _SIGN else _SIGN))

    def decode(self, data: bytes) -> float:
        expect_width(data, 8, "a float")
        (bits,) = _BITS.unpack(data)
        (value,) = _FLOAT.unpack(_BITS.pack(bits ^ (_SIGN if bits & _SIGN else _ALL)))
        if self.encode(value) != data:
            raise CoderError("this coder writes no such zero or NaN")
        return float(value)


class TimestampCoder(Coder[datetime]):
    """Encodes a point in time as microseconds since 1970, in eight bytes that sort. Decoding returns an equal time in
    UTC.
    """

    deterministic = True
    ordered = True
    width = 8

    _number = FixedIntCoder(8)

    def encode(self, value: datetime) -> bytes:
        expect(value, datetime, "a datetime")
        if value.utcoffset() is None:
            raise CoderError("a datetime without a time zone is no point in time")
        count = (value - _EPOCH) // _MICROSECOND
        self._at(count)
        return self._number.encode(count)

    def decode(self, data: bytes) -> datetime:
        return self._at(self._number.decode(data))

    @staticmethod
    def _at(count: int) -> datetime:
        try:
            return _EPOCH + timedelta(microseconds=count)
        except OverflowError as error:
            raise CoderError("the time is outside of the years 1 to 9999 of UTC") from error
