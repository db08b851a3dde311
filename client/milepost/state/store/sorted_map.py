"""A dict that can iterate over a range of its keys in order; an iteration shows the dict as it was when the iteration
began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from sortedcontainers import SortedList

V = TypeVar("V")
R = TypeVar("R")

_FIRST, _MOST = 64, 4096
"""The number of keys that a view reads in its first step, and the most in a later step. The first step is small,
because many readers need only the first key.
"""


class SortedMap(Generic[V]):
    """A dict that can iterate over ranges of its keys in order. The sorted order is computed when it is first needed,
    and maintained from then on.
    """

    def __init__(self) -> None:
        self.values: dict[bytes, V] = {}
        self._order: SortedList | None = None
        self._views: WeakSet[View[Any]] = WeakSet()

    def __len__(self) -> int:
        return len(self.values)

    def set(self, key: bytes, value: V) -> None:
        """Set the value of a key."""
        self.to_change(key)
        if self._order is not None and key not in self.values:
            self._order.add(key)
        self.values[key] = value

    def discard(self, key: bytes) -> None:
        """Remove a key, if it exists."""
        if key not in self.values:
            return
        self._read_views()
        del self.values[key]
        if self._order is not None:
            self._order.remove(key)

    def update(self, pairs: Iterable[tuple[bytes, V]]) -> None:
        """Set the values of many keys, and discard the sorted order of the keys, which is computed anew when it is
        needed.
        """
        self._read_views()
        self._order = None
        self.values.update(pairs)

    def keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Iterate over the keys from ``start`` up to, but not including, ``end``, in order. The map must not change
        during the iteration.
        """
        if self._order is None:
            self._order = SortedList(self.values)
        return iter(self._order.irange(start, end, inclusive=(True, False)))

    def view(self, start: bytes, end: bytes | None, read: Callable[[bytes], R | None]) -> View[R]:
        """Return the keys from ``start`` up to, but not including, ``end``, in order, with their present values; later
        changes do not affect the result.

        ``read`` returns the value at a key as an immutable object; None if there is none.
        """
        view = View(self, start, end, read)
        if not view.complete:
            self._views.add(view)
        return view

    def to_change(self, key: bytes) -> None:
        """Let each `View` of this map save the value of a key. Call this before the value is changed in place."""
        if self._views:
            for view in self._views:
                view.keep(key)

    def _read_views(self) -> None:
        """Let each `View` of this map read the rest of its range. Call this before keys are removed, or many values are
        set at once.
        """
        if self._views:
            for view in list(self._views):
                view.read_all()
            self._views.clear()


class View(Generic[R]):
    """A range of a `SortedMap` as it was when the view was made. It can be iterated once.

    Reading the whole range at once would be slow for a reader that needs only its beginning. So the view reads the
    range step by step, and saves the old value of a key that changes before the view has read it.
    """

    def __init__(
        self, whole: SortedMap[Any], start: bytes, end: bytes | None, read: Callable[[bytes], R | None]
    ) -> None:
        self._whole = whole
        self._start = start
        self._end = end
        self._read = read
        self._size = _FIRST
        self._kept: dict[bytes, R | None] = {}
        self.complete = False
        self._found = self._more()

    def __bool__(self) -> bool:
        """Whether the iteration may yield further keys."""
        return bool(self._found) or not self.complete

    def __iter__(self) -> Iterator[tuple[bytes, R]]:
        while self:
            found, self._found = self._found, []
            yield from found
            if not self._found:
                self._found = self._more()

    def keep(self, key: bytes) -> None:
        """Save the value of a key that is about to change, if this view has yet to read the key."""
        if key >= self._start and (self._end is None or key < self._end) and key not in self._kept:
            self._kept[key] = self._read(key)

    def read_all(self) -> None:
        """Read the unread rest of the range."""
        while not self.complete:
            self._found += self._more()

    def _more(self) -> list[tuple[bytes, R]]:
        """Read the next keys, with their values from when the view was made. The result may be empty before the end of
        the range, if all keys of a step were added after the view was made.
        """
        if self.complete:
            return []
        keys = list(islice(self._whole.keys(self._start, self._end), self._size))
        if len(keys) < self._size:
            self.complete = True
        else:
            self._start = keys[-1] + b"\0"
        self._size = min(2 * self._size, _MOST)
        pairs = ((key, self._kept.pop(key) if key in self._kept else self._read(key)) for key in keys)
        return [(key, found) for key, found in pairs if found is not None]
