"""Divides long content, bytes in memory or JSON lists, into pieces, so that other requests are served between the
pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec

_PIECE_BYTES = 1024 * 1024

_CHUNK = 64
"""The number of items of a JSON list that are encoded in one step."""


async def stream_of(content: bytes) -> AsyncIterator[bytes]:
    """Yield the content in pieces of a megabyte, so that other requests are served between two of them."""
    yield content[:_PIECE_BYTES]
    for start in range(_PIECE_BYTES, len(content), _PIECE_BYTES):
        await asyncio.sleep(0)
        yield content[start : start + _PIECE_BYTES]


@dataclass(frozen=True, slots=True)
class EncodedList:
    """A JSON list that is encoded already; its text is the ``pieces`` joined."""

    pieces: list[bytes]


class JsonList:
    """Builds an `EncodedList`. Items are encoded while they are added, so that a long list does not block the event
    loop.
    """

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
        """Return the encoded list of all added items."""
        self._encode()
        return EncodedList([b"[", *self._pieces, b"]"])

    def _encode(self) -> None:
        if self._items:
            comma = b"," if self._pieces else b""
            self._pieces.append(comma + self._encoder.encode(self._items)[1:-1])
            self._items.clear()
