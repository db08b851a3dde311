"""The base class of all coders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from milepost.state.errors import CoderError

T = TypeVar("T")


class Coder(ABC, Generic[T]):
    """Turns values of one kind into bytes and back.

    A coder keeps no state between calls, so threads may share it.
    """

    deterministic: bool = False
    """Whether equal values always have the same bytes, in every process; only then may the bytes be a key."""

    ordered: bool = False
    """Whether bytes compare as their values do."""

    width: int | None = None
    """The number of bytes of every value, if it is constant."""

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """Turn a value into bytes. Raises `CoderError` for a value that decoding would not reproduce exactly."""

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """Turn bytes into the value from which they were made. Raises `CoderError` for all other bytes."""


def expect(value: Any, kind: type | tuple[type, ...], what: str) -> None:
    """Raise `CoderError` if a value is not of exactly this type: decoding would turn a subclass into another type."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(value) not in kinds:
        raise CoderError(f"this coder takes {what}, not {type(value).__name__}")


def expect_width(data: bytes, width: int, what: str) -> None:
    """Raise `CoderError` if the number of bytes is not ``width``."""
    if len(data) != width:
        raise CoderError(f"{what} has {width} bytes, not {len(data)}")
