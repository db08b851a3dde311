"""Base classes for the state of the current key: one value, a list, or the entries of a map, read and written through
coders. Each state API derives its state classes from these, and adds its names and rules.
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
    """The key whose state a task reads and writes now."""

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
        """The key group of the current key, in two bytes. Raises `InvalidUse` if no key is current."""
        if self._group is None:
            raise InvalidUse(self._missing)
        return self._group

    def row(self) -> bytes:
        """Return the key under which the state store keeps a value or a list of the current key: its key group, and
        then the key (as `milepost.state.key_groups.with_group`).
        """
        return self.group + self._key

    def entries(self) -> bytes:
        """Return the bytes with which the state store's keys of all map entries of the current key begin (as
        `milepost.state.key_groups.entries_of`).
        """
        return self.group + write_escaped(self._key)


class Cell(Protocol):
    """The rows of a state store that hold one state of one key: a row under the cell's own key, and a row for each part
    of the cell. The key of a part is the cell's key with more bytes behind it, such as the encoded key of a map entry.
    """

    def get(self, part: bytes = b"") -> bytes | None:
        """Return the single value of the cell or, if ``part`` is not empty, of that part of the cell; None if there is
        none.
        """

    def put(self, value: bytes, part: bytes = b"") -> None:
        """Set the single value of the cell or, if ``part`` is not empty, of that part of the cell."""

    def remove(self, part: bytes = b"") -> None:
        """Remove the value of the cell or, if ``part`` is not empty, of that part of the cell, if it exists."""

    def parts(self) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over all parts, sorted by their bytes, each with its value."""

    def remove_parts(self) -> None:
        """Remove the values of all parts."""


class KeyedCell:
    """A `Cell` in a `ValueFamily`. ``place`` returns the cell's own key, which depends on the key that is current at
    the call.
    """

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
    """The base class of states with one value, or none."""

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
    """The base class of states with one value, which the function ``fold`` of two arguments combines with each added
    value.
    """

    def __init__(self, cell: Cell, coder: Coder[T], fold: Callable[[T, T], T]) -> None:
        super().__init__(cell, coder)
        self._fold = fold

    def add(self, value: T) -> None:
        """Combine a value with the stored value, and store the result. The first value is stored as it is."""
        before = self._cell.get()
        self._put(value if before is None else self._fold(self._coder.decode(before), value))


class Elements(ABC, Generic[T]):
    """The base class of states with a list of values. Appending does not read the list."""

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
    """The base class of states with the entries of a map, sorted by the bytes of their keys. Each entry is a row of its
    own in the state store.
    """

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
