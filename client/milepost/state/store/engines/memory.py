"""An engine in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from milepost.state.store.engines.contract import Engine
from milepost.state.store.sorted_map import SortedMap

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
