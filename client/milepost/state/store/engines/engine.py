"""The contract of an engine, which holds the keys and values of one version of a state store and is changed into the
next version in place; and the engine in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from milepost.state.store.sorted_map import SortedMap


class Engine(ABC):
    """The sorted keys and the values of one version of a state store. A new engine is empty, and only one thread at a
    time uses it. An engine need not be durable, because the files of the store contain the same data. Its methods raise
    `EngineFailed`.
    """

    @abstractmethod
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, None for a key that does not exist."""

    @abstractmethod
    def scan(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys from ``start`` up to, but not including, ``end``, and their values, sorted by key; None
        leaves the end open. The caller must not change the engine during the iteration.
        """

    @abstractmethod
    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Set the value of each key, or remove the key if the value is None; each key appears once."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """Return about how many bytes of memory the engine uses."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources of the engine."""


EngineFactory = Callable[[], Engine]
"""A function that makes an empty engine."""


_ENTRY_BYTES = 180
"""The estimated bytes that Python needs for a dict entry and two bytes objects, beside the content of the objects."""

_FEW = 0.1
"""If the changed keys are at most this share of all keys, each is inserted into the sorted order; else the order is
computed anew.
"""


class MemoryEngine(Engine):
    """An engine that keeps keys and values as Python objects: the fastest one, as long as the state fits into
    memory.
    """

    def __init__(self) -> None:
        self._map: SortedMap[bytes] = SortedMap()
        self._content_bytes = 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        get = self._map.values.get
        return [get(key) for key in keys]

    def scan(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        values = self._map.values
        return ((key, values[key]) for key in self._map.keys(start, end))

    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        get = self._map.values.get
        for key, value in changes:
            before = get(key)
            if before is not None:
                self._content_bytes -= len(key) + len(before)
            if value is not None:
                self._content_bytes += len(key) + len(value)
        removed = [key for key, value in changes if value is None]
        put = [(key, value) for key, value in changes if value is not None]
        if len(put) > _FEW * len(self._map):
            self._map.update(put)
        else:
            for key, value in put:
                self._map.set(key, value)
        for key in removed:
            self._map.discard(key)

    def memory_bytes(self) -> int:
        return self._content_bytes + _ENTRY_BYTES * len(self._map)

    def close(self) -> None:
        self._map = SortedMap()
        self._content_bytes = 0
