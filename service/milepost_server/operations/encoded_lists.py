"""Long JSON lists in answers, encoded in small pieces, so that other requests are not held up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

_CHUNK = 64
"""How many items are encoded at once."""


@dataclass(frozen=True, slots=True)
class EncodedList:
    """A JSON list that is encoded already; its text is the ``pieces`` joined."""

    pieces: list[bytes]


class JsonList:
    """Builds an `EncodedList`: items are encoded while they are added."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()
        self._pieces: list[bytes] = []
        self._items: list[Any] = []

    def add(self, item: Any) -> None:
        """Append an item to the list."""
        self._items.append(item)
        if len(self._items) == _CHUNK:
            self._encode()

    def build(self) -> EncodedList:
        """Return the whole list."""
        self._encode()
        return EncodedList([b"[", *self._pieces, b"]"])

    def _encode(self) -> None:
        if self._items:
            comma = b"," if self._pieces else b""
            self._pieces.append(comma + self._encoder.encode(self._items)[1:-1])
            self._items.clear()
