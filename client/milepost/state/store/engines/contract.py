"""The contract of an engine: the keys and values of one version of a store, which are brought to the next in place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence


class Engine(ABC):
    """Sorted keys and their values. It is empty when it is made, belongs to one thread at a time, and can be lost: the
    files of the store are the truth. Where it fails, it raises `EngineFailed`.
    """

    @abstractmethod
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, None where there is none."""

    @abstractmethod
    def scan(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Iterate the keys from ``start`` on and before ``end``, sorted. Nothing is applied meanwhile."""

    @abstractmethod
    def apply(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Set the value of each key, or remove it where that is None; a key comes once."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """Return about how many bytes of memory it takes."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all it holds."""


EngineFactory = Callable[[], Engine]
"""Makes an empty engine."""
