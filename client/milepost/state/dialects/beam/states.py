"""The common parts of all kinds of state: they can be read, alone or together with others, and cleared."""

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
        """Announce a later read (``readLater``): the announced states are read together, once one of them is read.

        This holds for state under a single key: values, accumulators, holds, and single entries of maps and sets. For
        other state the call does nothing.
        """
        return self


class View(ReadableState[OutputT]):
    """A state that each read computes anew."""

    def __init__(self, read: Callable[[], OutputT]) -> None:
        self._read = read

    def read(self) -> OutputT:
        return self._read()


class State(ABC):
    """One cell of state: the content of a tag in a namespace of a key (``State``).

    A cell itself stores nothing. Its methods raise the errors of its table: `StoreEnded` for a `StateStore` that has
    ended. A value that its coder refuses raises `CoderError`, and nothing is changed.
    """

    @abstractmethod
    def clear(self) -> None:
        """Make the cell empty (``clear``)."""

    @abstractmethod
    def is_empty(self) -> ReadableState[bool]:
        """Return a state that tells, at each read, whether the cell is empty (``isEmpty``)."""


class GroupingState(State, ReadableState[OutputT], Generic[InputT, OutputT]):
    """A cell to which values are added, and whose read returns their combination (``GroupingState``)."""

    @abstractmethod
    def add(self, value: InputT) -> None:
        """Add a value (``add``)."""
