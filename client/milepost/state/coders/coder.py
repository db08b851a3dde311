"""What every coder is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from milepost.state.errors import CoderError

T = TypeVar("T")


class Coder(ABC, Generic[T]):
    """Turns values of one kind into bytes and back.

    A coder keeps nothing between two calls, so threads may share it.
    """

    deterministic: bool = False
    """Whether equal values always have the same bytes, in every process; only then the bytes may be a key."""

    ordered: bool = False
    """Whether bytes compare as their values do."""

    width: int | None = None
    """The number of bytes of every value, if that is always the same."""

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """Turn a value into bytes. Raises `CoderError` for a value that would not come back as it is."""

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """Turn bytes into the value they were made from. Raises `CoderError` for all other bytes."""


def expect(value: Any, kind: type | tuple[type, ...], what: str) -> None:
    """Raise `CoderError` if a value is not of exactly this type, since a subclass would come back as another type."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(value) not in kinds:
        raise CoderError(f"this coder takes {what}, not {type(value).__name__}")


def expect_width(data: bytes, width: int, what: str) -> None:
    """Raise `CoderError` if there are more or fewer bytes than the value has."""
    if len(data) != width:
        raise CoderError(f"{what} has {width} bytes, not {len(data)}")
