"""The state of the current key: one value, a list, or the entries of a map, each with the coders of its values.

A dialect's state classes are subclasses, which give these operations the names and the extra rules of their API.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from milepost.state.cells.families import ListFamily, ValueFamily
from milepost.state.coders import Coder
from milepost.state.coders.framing import write_escaped
from milepost.state.errors import InvalidUse
from milepost.state.key_groups import GROUP_BYTES, KeyGroups

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

Place = Callable[[], bytes]
"""A function that returns the store key of the current key's state. Raises `InvalidUse` if no key is current."""


class CurrentKey:
    """The key whose state all states of a task show."""

    def __init__(self, groups: KeyGroups, missing: str) -> None:
        """``missing`` is the message of the `InvalidUse` that `row` and `entries` raise if no key is current."""
        self._groups = groups
        self._missing = missing
        self._group: bytes | None = None
        self._key = b""

    def set(self, key: bytes) -> None:
        """Make this encoded key the current one."""
        self._group = self._groups.group(key).to_bytes(GROUP_BYTES, "big")
        self._key = key

    def unset(self) -> None:
        """Clear the current key."""
        self._group = None

    @property
    def group(self) -> bytes:
        """The key group, as the keys in a store begin."""
        if self._group is None:
            raise InvalidUse(self._missing)
        return self._group

    def row(self) -> bytes:
        """Return the store key of a value or list of the current key (`milepost.state.key_groups.with_group`)."""
        return self.group + self._key

    def entries(self) -> bytes:
        """Return the bytes with which the store keys of all map entries of the current key begin
        (`milepost.state.key_groups.entries_of`).
        """
        return self.group + write_escaped(self._key)


class Cell(Protocol):
    """The rows of one state of one key: the row under the key of the cell, and rows of parts, whose keys go on."""

    def get(self, part: bytes = b"") -> bytes | None:
        """Return the single value of the cell, or of a part; None if there is none."""

    def put(self, value: bytes, part: bytes = b"") -> None:
        """Set the single value of the cell, or of a part."""

    def remove(self, part: bytes = b"") -> None:
        """Remove the value of the cell, or of a part, if it exists."""

    def parts(self) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the present parts, sorted, each with its value."""

    def remove_parts(self) -> None:
        """Remove all parts."""


class KeyedCell:
    """The `Cell` of the current key in a family."""

    def __init__(self, family: ValueFamily, place: Place) -> None:
        self._family = family
        self._place = place

    def get(self, part: bytes = b"") -> bytes | None:
        return self._family.get(self._place() + part)

    def put(self, value: bytes, part: bytes = b"") -> None:
        self._family.put(self._place() + part, value)

    def remove(self, part: bytes = b"") -> None:
        self._family.remove(self._place() + part)

    def parts(self) -> Iterator[tuple[bytes, bytes]]:
        place = self._place()
        return ((key[len(place) :], value) for key, value in self._family.scan(place))

    def remove_parts(self) -> None:
        self._family.remove_prefix(self._place())


class OneValue(ABC, Generic[T]):
    """One value, or none."""

    def __init__(self, cell: Cell, coder: Coder[T]) -> None:
        self._cell = cell
        self._coder = coder

    def clear(self) -> None:
        """Remove the value."""
        self._cell.remove()

    def _get(self) -> T | None:
        found = self._cell.get()
        return None if found is None else self._coder.decode(found)

    def _put(self, value: T) -> None:
        self._cell.put(self._coder.encode(value))


class Folded(OneValue[T]):
    """One value, which a function of two values combines with each added value."""

    def __init__(self, cell: Cell, coder: Coder[T], fold: Callable[[T, T], T]) -> None:
        super().__init__(cell, coder)
        self._fold = fold

    def add(self, value: T) -> None:
        """Combine one more value with the value; the first one becomes the value."""
        before = self._cell.get()
        self._put(value if before is None else self._fold(self._coder.decode(before), value))


class Elements(ABC, Generic[T]):
    """A list, which grows without being read."""

    def __init__(self, family: ListFamily, place: Place, coder: Coder[T]) -> None:
        self._family = family
        self._place = place
        self._coder = coder

    def clear(self) -> None:
        """Remove all elements."""
        self._family.set(self._place(), ())

    def _get(self) -> Iterator[T]:
        return map(self._coder.decode, self._family.get(self._place()))

    def _add(self, values: Iterable[T]) -> None:
        self._family.add(self._place(), [self._coder.encode(value) for value in values])

    def _set(self, values: Iterable[T]) -> None:
        self._family.set(self._place(), [self._coder.encode(value) for value in values])


class Entries(ABC, Generic[K, V]):
    """The entries of a map, in the order of their bytes. Each is read and written by itself."""

    def __init__(self, cell: Cell, key_coder: Coder[K], value_coder: Coder[V]) -> None:
        self._cell = cell
        self._keys = key_coder
        self._values = value_coder

    def clear(self) -> None:
        """Remove all entries."""
        self._cell.remove_parts()

    def _get(self, key: K) -> V | None:
        found = self._cell.get(self._keys.encode(key))
        return None if found is None else self._values.decode(found)

    def _contains(self, key: K) -> bool:
        return self._cell.get(self._keys.encode(key)) is not None

    def _put(self, key: K, value: V) -> None:
        self._cell.put(self._values.encode(value), self._keys.encode(key))

    def _remove(self, key: K) -> None:
        self._cell.remove(self._keys.encode(key))

    def _items(self) -> Iterator[tuple[K, V]]:
        return ((self._keys.decode(key), self._values.decode(value)) for key, value in self._cell.parts())
