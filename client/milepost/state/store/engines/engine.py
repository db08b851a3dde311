"""An engine holds the keys and values of one version of a store, and moves to the next in place: its contract, and the
engine in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from milepost.state.store.sorted_map import SortedMap


class Engine(ABC):
    """Sorted keys and their values. A new engine is empty, belongs to one thread at a time, and may be lost: the files
    of the store are authoritative. On failure it raises `EngineFailed`.
    """

    @abstractmethod
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, None for a key that does not exist."""

    @abstractmethod
    def scan(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys from ``start`` up to, but not including, ``end``, sorted. The caller applies nothing
        meanwhile.
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
"""The bytes that Python needs for a dict entry and two bytes objects, beside their content."""

_FEW = 0.1
"""The share of new keys up to which they are inserted in order one by one."""


class MemoryEngine(Engine):
    """Keys and values as Python objects: the fastest engine, as long as they fit into memory."""

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
