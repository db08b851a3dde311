"""What all kinds of state have in common: they can be read, now or together with others, and cleared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

OutputT = TypeVar("OutputT", covariant=True)
InputT = TypeVar("InputT", contravariant=True)
ReadableT = TypeVar("ReadableT", bound="ReadableState[Any]")


class ReadableState(ABC, Generic[OutputT]):
    """Something that can be read (Beam's ``ReadableState``)."""

    @abstractmethod
    def read(self) -> OutputT:
        """Return the value (``read``)."""

    def read_later(self: ReadableT) -> ReadableT:
        """Announce that it will be read (``readLater``): what was announced is read in one go, once some of it is.

        That counts for what lies under one key: values, accumulators, holds, and single entries of maps and sets. For
        the rest it does nothing.
        """
        return self


class View(ReadableState[OutputT]):
    """Something that is read anew each time, as it then is."""

    def __init__(self, read: Callable[[], OutputT]) -> None:
        self._read = read

    def read(self) -> OutputT:
        return self._read()


class State(ABC):
    """One cell of state: what a tag has in a namespace of a key (``State``).

    A cell keeps nothing itself. Its methods raise what its table raises: of a `StateStore` that has ended,
    `StoreEnded`. What its coder refuses raises `CoderError`, and nothing was changed.
    """

    @abstractmethod
    def clear(self) -> None:
        """Make the cell empty (``clear``)."""

    @abstractmethod
    def is_empty(self) -> ReadableState[bool]:
        """Return whether the cell is empty, each time it is read (``isEmpty``)."""


class GroupingState(State, ReadableState[OutputT], Generic[InputT, OutputT]):
    """A cell to which values are added, and which is read as what they come to (``GroupingState``)."""

    @abstractmethod
    def add(self, value: InputT) -> None:
        """Add a value (``add``)."""
