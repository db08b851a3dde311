"""What something was at each revision."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Timeline(Generic[T]):
    """Values by the revision from which on they held."""

    def __init__(self, first: T) -> None:
        self._revisions = [0]
        self._values = [first]

    def note(self, revision: int, value: T) -> None:
        """From ``revision`` on it is ``value``."""
        self._revisions.append(revision)
        self._values.append(value)

    def at(self, revision: int) -> T:
        """The value at a revision."""
        return self._values[bisect_right(self._revisions, revision) - 1]

    def between(self, first: int, last: int) -> Iterator[T]:
        """The value at ``first``, and every later one up to ``last``."""
        for index in range(bisect_right(self._revisions, first) - 1, bisect_right(self._revisions, last)):
            yield self._values[index]

    def changes(self, first: int, last: int) -> list[int]:
        """The revisions after ``first``, up to ``last``, at which it changed."""
        return self._revisions[bisect_right(self._revisions, first) : bisect_right(self._revisions, last)]
