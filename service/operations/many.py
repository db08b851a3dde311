"""Parts of answers that may be very long: put together in slices, so that nobody else is held up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import msgspec

from service.slices import Slices

T = TypeVar("T")

_CHUNK = 64
"""So many are taken at once from an index, which may have changed the next time."""


@dataclass(frozen=True, slots=True)
class Many:
    """A list as JSON, in pieces which together are the whole."""

    pieces: list[bytes]


class Listed:
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


async def through(
    slices: Slices, behind: Callable[[T], Iterator[T]], first: T, act: Callable[[T], bool | None]
) -> None:
    """Call ``act`` with each of what ``behind`` gives from ``first`` on, in slices, until it says that it has enough.

    ``behind`` is asked again and again for what comes behind the last one, since what it looks at may change.
    """
    last = first
    async with slices.turn() as turn:
        while batch := list(islice(behind(last), _CHUNK)):
            for last in batch:
                if act(last):
                    return
                if turn.over:
                    await turn.next()
