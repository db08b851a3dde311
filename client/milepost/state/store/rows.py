"""The rows of a state store. A row is a key, which begins with the number of its column family, an operation, and a
value. Several values of one key are stored as one, each after its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from milepost.state.coders.framing import read_varint, write_varint
from milepost.state.errors import InvalidUse, UnknownFamily
from milepost.state.store.contract.values import DEFAULT_FAMILY

PREFIX_BYTES = 4
_MOST_NAME_BYTES = 200


@dataclass(frozen=True, slots=True)
class Family:
    """A column family of a state store. Its number is never used for another family of the store, even after its
    removal; so a reader of older files recognizes rows of a removed family.
    """

    number: int
    multiple: bool

    @property
    def prefix(self) -> bytes:
        """The bytes with which the keys of this column family begin in engines and files."""
        return prefix_of(self.number)


def prefix_of(number: int) -> bytes:
    """Return the bytes with which the keys of the column family ``number`` begin in engines and files."""
    return number.to_bytes(PREFIX_BYTES, "big")


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the smallest bytes that are greater than all bytes that begin with ``prefix``; None if there are no such
    bytes.
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None


@dataclass(frozen=True, slots=True)
class Families:
    """The column families of a version of a state store. The object is immutable; its methods return changed copies."""

    by_name: Mapping[str, Family] = field(default_factory=dict)
    next_number: int = 0

    @classmethod
    def first(cls, *, multiple: bool) -> Families:
        """Return the column families of an empty state store: only the default family, with several values for each key
        if ``multiple``.
        """
        return cls().with_family(DEFAULT_FAMILY, multiple=multiple)

    def named(self, name: str) -> Family:
        """Return the column family with this name. Raises `UnknownFamily`."""
        found = self.by_name.get(name)
        if found is None:
            raise UnknownFamily(f"the store has no column family {name!r}")
        return found

    def with_family(self, name: str, *, multiple: bool) -> Families:
        """Return a copy with the column family ``name`` added, or this object if the family exists. ``multiple`` means
        several values for each key. Raises `InvalidUse` if the family exists with the other kind.
        """
        found = self.by_name.get(name)
        if found is None:
            if not 0 < len(name.encode(errors="replace")) <= _MOST_NAME_BYTES:
                raise InvalidUse(f"the name of a column family has 1 to {_MOST_NAME_BYTES} bytes")
            return Families({**self.by_name, name: Family(self.next_number, multiple)}, self.next_number + 1)
        if found.multiple != multiple:
            kept = "several values" if found.multiple else "one value"
            raise InvalidUse(f"the column family {name!r} has {kept} for each key")
        return self

    def without_family(self, name: str) -> Families:
        """Return a copy without the column family ``name``. Raises `InvalidUse` for the default family, which cannot be
        removed.
        """
        if name == DEFAULT_FAMILY:
            raise InvalidUse("the default column family cannot be removed")
        return Families({other: family for other, family in self.by_name.items() if other != name}, self.next_number)

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of all column families."""
        return frozenset(family.number for family in self.by_name.values())


class Op(IntEnum):
    """The operations on a key of a state store. Files contain the numbers of the operations, which must not change."""

    PUT = 1
    REMOVE = 2
    APPEND = 3


Update = tuple[int, bytes]
"""An operation and its value, which is empty for a removal."""


Row = tuple[bytes, int, bytes]
"""A key after the number of its family, the operation on the key, and the value."""


def fold(older: Update, newer: Update) -> Update:
    """Return the single update of a key that has the effect of ``older`` followed by ``newer``."""
    if newer[0] != Op.APPEND:
        return newer
    if older[0] == Op.REMOVE:
        return Op.PUT, newer[1]
    return older[0], older[1] + newer[1]


def outcome(value: bytes | None, update: Update) -> bytes | None:
    """Return the value of a key after an update, if ``value`` is the value before it; None stands for a key that does
    not exist.
    """
    op, new = update
    if op == Op.REMOVE:
        return None
    return new if op == Op.PUT or value is None else value + new


def framed(values: Iterable[bytes]) -> bytes:
    """Encode several values as one: each value after its length."""
    return b"".join(part for value in values for part in (write_varint(len(value)), value))


def unframed(data: bytes) -> Iterator[bytes]:
    """Iterate over the values that `framed` encoded."""
    start = 0
    while start < len(data):
        length, start = read_varint(data, start)
        yield data[start : start + length]
        start += length
