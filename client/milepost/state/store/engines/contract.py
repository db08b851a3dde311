"""The contract of an engine: it holds the keys and values of one version of a store, and moves to the next in place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence


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
