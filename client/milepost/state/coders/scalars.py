"""Coders of bytes, text and truth values."""

from __future__ import annotations

from milepost.state.coders.coder import Coder, expect
from milepost.state.errors import CoderError


class BytesCoder(Coder[bytes]):
    """Bytes stand for themselves."""

    deterministic = True
    ordered = True

    def encode(self, value: bytes) -> bytes:
        expect(value, bytes, "bytes")
        return value

    def decode(self, data: bytes) -> bytes:
        return bytes(data)


class Utf8Coder(Coder[str]):
    """Text in UTF-8, whose bytes sort by code points, as Python's strings do."""

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
    """A truth value is one byte, 0 or 1."""

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
