"""Values that become keys, and objects of which each key has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from milepost.state.coders import Coder
from milepost.state.coders.framing import write_escaped
from milepost.state.errors import NotDeterministic

K = TypeVar("K")
R = TypeVar("R")


def check_deterministic(coder: Coder[Any], what: str) -> None:
    """Raise `NotDeterministic` if the coder may encode equal values differently; the message says what for by
    ``what``.
    """
    if not coder.deterministic:
        raise NotDeterministic(f"{what} must have a deterministic coder, which {type(coder).__name__} is not")


class PerKey(Generic[K, R]):
    """One object for each key; the same object, as long as it is referenced."""

    def __init__(self, coder: Coder[K], make: Callable[[K, bytes], R]) -> None:
        """``make`` makes the object from a key and the bytes with which all rows of that key begin. Raises
        `NotDeterministic`.
        """
        check_deterministic(coder, "the keys of state")
        self.coder = coder
        self._make = make
        self._known: WeakValueDictionary[bytes, R] = WeakValueDictionary()

    def get(self, key: K) -> R:
        """Return the object of a key. Raises `CoderError`."""
        prefix = write_escaped(self.coder.encode(key))
        found = self._known.get(prefix)
        if found is None:
            found = self._known[prefix] = self._make(key, prefix)
        return found
