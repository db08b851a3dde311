"""Parts of answers that may be very long: put together in slices, so that nobody else is held up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

_CHUNK = 64
"""So many are encoded at once."""


@dataclass(frozen=True, slots=True)
class Many:
    """A list as JSON, in pieces which together are the whole."""

    pieces: list[bytes]


class JsonList:
    """A JSON list in the making."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()
        self._pieces: list[bytes] = []
        self._items: list[Any] = []

    def add(self, item: Any) -> None:
        """One more."""
        self._items.append(item)
        if len(self._items) == _CHUNK:
            self._encode()

    def whole(self) -> Many:
        """All of them."""
        self._encode()
        return Many([b"[", *self._pieces, b"]"])

    def _encode(self) -> None:
        if self._items:
            comma = b"," if self._pieces else b""
            self._pieces.append(comma + self._encoder.encode(self._items)[1:-1])
            self._items.clear()
