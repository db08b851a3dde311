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


class ContentStream:
    """Bytes in memory as a stream of pieces of a megabyte, so that other requests are served between two of them."""

    __slots__ = ("_at", "_content")

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def whole(self) -> bytes | None:
        """All of the bytes if they are one piece, which needs no stream; else None."""
        return self._content if len(self._content) <= _PIECE_BYTES and not self._at else None

    def __aiter__(self) -> ContentStream:
        return self

    async def __anext__(self) -> bytes:
        if self._at:
            if self._at >= len(self._content):
                raise StopAsyncIteration
            await asyncio.sleep(0)
        piece = self._content[self._at : self._at + _PIECE_BYTES]
        self._at += _PIECE_BYTES
        return piece


def stream_of(content: bytes) -> ContentStream:
    """Return the content as a stream, whose first piece is there even if it is empty."""
    return ContentStream(content)


def whole_of(stream: AsyncIterator[bytes]) -> bytes | None:
    """Return all bytes of a stream, if they are in memory and are one piece; else None."""
    return stream.whole if isinstance(stream, ContentStream) else None


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
