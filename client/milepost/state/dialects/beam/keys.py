"""Values that become keys, and what there is one of for each key."""

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
    """Raise `NotDeterministic` if equal values may have other bytes, for ``what`` in the message."""
    if not coder.deterministic:
        raise NotDeterministic(f"{what} must have a deterministic coder, which {type(coder).__name__} is not")


class PerKey(Generic[K, R]):
    """Something for each key, and the same object while anybody has it."""

    def __init__(self, coder: Coder[K], make: Callable[[K, bytes], R]) -> None:
        """``make`` is given a key, and what all rows of that key begin with. Raises `NotDeterministic`."""
        check_deterministic(coder, "the keys of state")
        self.coder = coder
        self._make = make
        self._known: WeakValueDictionary[bytes, R] = WeakValueDictionary()

    def get(self, key: K) -> R:
        """Return what there is for a key. Raises `CoderError`."""
        prefix = write_escaped(self.coder.encode(key))
        found = self._known.get(prefix)
        if found is None:
            found = self._known[prefix] = self._make(key, prefix)
        return found
