"""The rows of a store: a key begins with the number of its column family, an operation says what was done to it, and
several values of one key are framed, each behind its length.
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
    """A column family. Its number is never given to another family of the store, not even after it was removed: so what
    older files still say of a removed family is known to be nobody's.
    """

    number: int
    multiple: bool

    @property
    def prefix(self) -> bytes:
        """What stands in front of its keys in an engine."""
        return prefix_of(self.number)


def prefix_of(number: int) -> bytes:
    """Return what stands in front of the keys of a family in an engine."""
    return number.to_bytes(PREFIX_BYTES, "big")


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the first bytes behind all that begin with a prefix; None if there are none behind."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None


@dataclass(frozen=True, slots=True)
class Families:
    """All column families of a version. Changes make another object."""

    by_name: Mapping[str, Family] = field(default_factory=dict)
    next_number: int = 0

    @classmethod
    def first(cls, *, multiple: bool) -> Families:
        """Return the families of an empty store: the default one, of this kind."""
        return cls().with_family(DEFAULT_FAMILY, multiple=multiple)

    def named(self, name: str) -> Family:
        """Return the family of a name. Raises `UnknownFamily`."""
        found = self.by_name.get(name)
        if found is None:
            raise UnknownFamily(f"the store has no column family {name!r}")
        return found

    def with_family(self, name: str, *, multiple: bool) -> Families:
        """Return these families with one more, unless it is there. Raises `InvalidUse` if it is of the other kind."""
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
        """Return these families without one. Raises `InvalidUse` for the default one, which stays."""
        if name == DEFAULT_FAMILY:
            raise InvalidUse("the default column family cannot be removed")
        return Families({other: family for other, family in self.by_name.items() if other != name}, self.next_number)

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of all families."""
        return frozenset(family.number for family in self.by_name.values())


class Op(IntEnum):
    """What was done to a key. The numbers stand in files."""

    PUT = 1
    REMOVE = 2
    APPEND = 3


Update = tuple[int, bytes]
"""What was done, and the value: of a removal, no bytes."""


Row = tuple[bytes, int, bytes]
"""A key with its family in front, what was done to it, and the value."""


def fold(older: Update, newer: Update) -> Update:
    """Return the one update that does what two did, one after the other."""
    if newer[0] != Op.APPEND:
        return newer
    if older[0] == Op.REMOVE:
        return Op.PUT, newer[1]
    return older[0], older[1] + newer[1]


def outcome(value: bytes | None, update: Update) -> bytes | None:
    """Return the value that a key has after an update, None if it has none."""
    op, new = update
    if op == Op.REMOVE:
        return None
    return new if op == Op.PUT or value is None else value + new


def framed(values: Iterable[bytes]) -> bytes:
    """Return the bytes that hold these values."""
    return b"".join(part for value in values for part in (write_varint(len(value)), value))


def unframed(data: bytes) -> Iterator[bytes]:
    """Iterate the values that the bytes hold."""
    start = 0
    while start < len(data):
        length, start = read_varint(data, start)
        yield data[start : start + length]
        start += length
