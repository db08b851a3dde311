"""Long JSON lists in answers, encoded in small pieces so that other requests are not held up meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

_CHUNK = 64
"""How many items are encoded at once."""


@dataclass(frozen=True, slots=True)
class Many:
    """A JSON list as pieces of text; all pieces together make the list."""

    pieces: list[bytes]


class JsonList:
    """The builder of a JSON list, which encodes its items while they are added."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()
        self._pieces: list[bytes] = []
        self._items: list[Any] = []

    def add(self, item: Any) -> None:
        """Append an item to the list."""
        self._items.append(item)
        if len(self._items) == _CHUNK:
            self._encode()

    def build(self) -> Many:
        """Return the whole list."""
        self._encode()
        return Many([b"[", *self._pieces, b"]"])

    def _encode(self) -> None:
        if self._items:
            comma = b"," if self._pieces else b""
            self._pieces.append(comma + self._encoder.encode(self._items)[1:-1])
            self._items.clear()
