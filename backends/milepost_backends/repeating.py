"""Repeats a call of a blob store that failed for a moment, with growing pauses, within the caller's patience.

The caller must know that a repeat is safe: because the call only reads, because a mark in the blob store tells whether
an earlier attempt took effect, or because an earlier attempt is undone first.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from milepost_backends.contract import StorageRefused, StorageUnavailable

T = TypeVar("T")

READ_SECONDS: Final = 2.5
"""The seconds for which a read without progress is repeated. Clients wait longer for the beginning of an answer."""
READ_REPEATS: Final = 5
"""The least number of repeats of a read, even if each attempt takes longer than `READ_SECONDS`."""

_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 2.0
_LONGEST_PAUSE_SHARE: Final = 0.2  # as a share of the patience, so that a short patience allows several attempts


class Pauses:
    """The growing pauses between the attempts of one call. They are random, so that callers do not repeat at the same
    time.

    There are at least ``least`` pauses. After these, they end once ``patience`` seconds have passed since this object
    was made.
    """

    def __init__(self, patience: float, least: int = 0) -> None:
        self._end = asyncio.get_running_loop().time() + patience
        self._least = least
        self._longest = min(_LONGEST_PAUSE_SECONDS, _LONGEST_PAUSE_SHARE * patience)
        self._next = _FIRST_PAUSE_SECONDS

    async def after(self, error: StorageUnavailable) -> None:
        """Wait for the next pause after a failed attempt.

        Raises ``error``, which the attempt raised, if it is a `StorageRefused`, or if the patience is over.
        """
        if isinstance(error, StorageRefused):
            raise error
        pause = self._next * random.uniform(0.5, 1.5)
        if self._least > 0:
            self._least -= 1
        elif asyncio.get_running_loop().time() + pause >= self._end:
            raise error
        self._next = min(2 * self._next, self._longest)
        await asyncio.sleep(pause)


async def repeated(attempt: Callable[[], Awaitable[T]], patience: float, least: int = 0) -> T:
    """Return the result of ``attempt``. While it raises `StorageUnavailable`, repeat it for ``patience`` seconds.

    The first ``least`` repeats are made even after that time. A `StorageRefused` is raised at once.
    """
    pauses = Pauses(patience, least)
    while True:
        try:
            return await attempt()
        except StorageUnavailable as error:
            await pauses.after(error)


async def read_again(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ``attempt``, a read, and repeat the read for some seconds while it fails; see `repeated`.

    This is for reads that give their whole result at the end, so that a repeat can begin anew.
    """
    return await repeated(attempt, READ_SECONDS, READ_REPEATS)


def reading() -> Pauses:
    """Return the pauses between the attempts of one read.

    Whenever the read makes progress, the caller should replace them by new ones, so that the patience begins anew.
    """
    return Pauses(READ_SECONDS, READ_REPEATS)
