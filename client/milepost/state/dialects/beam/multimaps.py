"""State that is a multimap: each key has a list of values, to which one is added without reading the others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Generic, TypeVar

from milepost.state.coders import Coder
from milepost.state.dialects.beam.cells import Cell
from milepost.state.dialects.beam.states import ReadableState, State, View

K = TypeVar("K")
V = TypeVar("V")


class MultimapState(State, Generic[K, V]):
    """Several values under each key (Beam's ``MultimapState``), in the order of the keys' bytes.

    The values of a key come in the order in which they were put. What its methods return shows what is there at each
    ``read``; an iterator shows what was there at the ``read`` that gave it.
    """

    def __init__(self, cell: Cell, key_coder: Coder[K], value_coder: Coder[V]) -> None:
        self._cell = cell
        self._keys = key_coder
        self._values = value_coder

    def put(self, key: K, value: V) -> None:
        """Add a value to those of a key (``put``)."""
        self._cell.append(self._values.encode(value), self._keys.encode(key))

    def get(self, key: K) -> ReadableState[Iterator[V]]:
        """Return the values of a key, none if it is absent (``get``)."""
        part = self._keys.encode(key)
        return View(lambda: map(self._values.decode, self._cell.values(part)))

    def contains(self, key: K) -> ReadableState[bool]:
        """Return whether the key has a value (``containsKey``)."""
        absent = self._cell.is_absent(self._keys.encode(key))
        return View(lambda: not absent.read())

    def remove(self, key: K) -> None:
        """Remove all values of a key, if it has any (``remove``)."""
        self._cell.remove(self._keys.encode(key))

    def keys(self) -> ReadableState[Iterator[K]]:
        """Return the keys, each once (``keys``). All values are read for it."""
        return View(
            lambda: (self._keys.decode(part) for part, _ in groupby(self._cell.parts_with_values(), itemgetter(0)))
        )

    def entries(self) -> ReadableState[Iterator[tuple[K, V]]]:
        """Return each value with its key (``entries``)."""
        return View(
            lambda: (
                (self._keys.decode(part), self._values.decode(value)) for part, value in self._cell.parts_with_values()
            )
        )

    def clear(self) -> None:
        self._cell.remove_parts()

    def is_empty(self) -> ReadableState[bool]:
        return self._cell.has_no_parts()
