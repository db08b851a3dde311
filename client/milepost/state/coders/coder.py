"""The base class of all coders, and the coders that are made of other coders: tuples, nullable values, and lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from milepost.state.coders.framing import read_escaped, write_escaped
from milepost.state.errors import CoderError

T = TypeVar("T")


class Coder(ABC, Generic[T]):
    """Turns values of one kind into bytes and back. A coder keeps no state between calls, so threads may share it."""

    deterministic: bool = False
    """Whether equal values always have the same bytes, in every process; only then may the bytes be a key."""

    ordered: bool = False
    """Whether the bytes of two values compare as the values themselves do."""

    width: int | None = None
    """The number of bytes of each encoded value; None if it varies."""

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """Turn a value into bytes. Raises `CoderError` for a value that decoding would not reproduce exactly."""

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """Turn encoded bytes back into the value. Raises `CoderError` for bytes that `encode` never returns."""


def expect(value: Any, kind: type | tuple[type, ...], what: str) -> None:
    """Raise `CoderError` unless ``value`` has exactly the type ``kind``, since decoding would turn an instance of a
    subclass into another type. ``what`` describes the expected value in the message.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(value) not in kinds:
        raise CoderError(f"this coder takes {what}, not {type(value).__name__}")


def expect_width(data: bytes, width: int, what: str) -> None:
    """Raise `CoderError` unless ``data`` has ``width`` bytes. ``what`` describes the expected value in the message."""
    if len(data) != width:
        raise CoderError(f"{what} has {width} bytes, not {len(data)}")


class TupleCoder(Coder[tuple[Any, ...]]):
    """Encodes tuples of a fixed length. The coder is ordered if the coders of all positions are, and deterministic if
    all of them are.
    """

    def __init__(self, *parts: Coder[Any]) -> None:
        """``parts`` has a coder for each position."""
        self._parts = parts
        self.deterministic = all(part.deterministic for part in parts)
        self.ordered = all(part.ordered for part in parts)
        widths = [part.width for part in parts]
        self.width = None if None in widths else sum(width or 0 for width in widths)

    def encode(self, value: tuple[Any, ...]) -> bytes:
        expect(value, tuple, "a tuple")
        if len(value) != len(self._parts):
            raise CoderError(f"the tuple has {len(self._parts)} parts, not {len(value)}")
        return self.prefix(*value)

    def prefix(self, *values: Any) -> bytes:
        """Return the bytes that all encoded tuples with these first values have in common at their beginning."""
        if len(values) > len(self._parts):
            raise CoderError(f"the tuple has {len(self._parts)} parts, and not {len(values)}")
        encoded = ((part, part.encode(value)) for part, value in zip(self._parts, values, strict=False))
        return b"".join(data if part.width is not None else write_escaped(data) for part, data in encoded)

    def decode(self, data: bytes) -> tuple[Any, ...]:
        found, start = [], 0
        for part in self._parts:
            if part.width is None:
                inner, start = read_escaped(data, start)
            else:
                inner, start = data[start : start + part.width], start + part.width
            found.append(part.decode(inner))
        if start != len(data):
            raise CoderError("there are bytes behind the tuple")
        return tuple(found)


class NullableCoder(Coder["T | None"]):
    """Encodes None and the values of another coder. None sorts before all values."""

    def __init__(self, inner: Coder[T]) -> None:
        """``inner`` encodes every value but None; it must not encode None itself."""
        self._inner = inner
        self.deterministic = inner.deterministic
        self.ordered = inner.ordered

    def encode(self, value: T | None) -> bytes:
        return b"\0" if value is None else b"\1" + self._inner.encode(value)

    def decode(self, data: bytes) -> T | None:
        if data == b"\0":
            return None
        if data[:1] != b"\1":
            raise CoderError("a value that may be missing begins with 0 or 1")
        return self._inner.decode(data[1:])


class ListCoder(Coder["list[T]"]):
    """Encodes lists of values of one kind. Lists sort as Python's lists do, if the coder of their values is ordered."""

    def __init__(self, inner: Coder[T]) -> None:
        """``inner`` encodes the values of a list."""
        self._inner = inner
        self.deterministic = inner.deterministic
        self.ordered = inner.ordered

    def encode(self, value: Sequence[T]) -> bytes:
        expect(value, list, "a list")
        return b"".join(b"\1" + write_escaped(self._inner.encode(one)) for one in value) + b"\0"

    def decode(self, data: bytes) -> list[T]:
        found, start = [], 0
        while data[start : start + 1] == b"\1":
            inner, start = read_escaped(data, start + 1)
            found.append(self._inner.decode(inner))
        if data[start:] != b"\0":
            raise CoderError("the list does not end where its bytes do")
        return found
