"""Know the newest attempt at each put, so that one that comes in late does nothing.

The data node that took the bytes of a file asks the leader to publish it, and asks again when it gets no answer. When
the first of these requests is served at last, the file may have been renamed, deleted or replaced: it must not be put
anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from milepost.wire import Code
from milepost_server.basics.problems import problem

_REMEMBERED_SECONDS = 600.0
"""How long the newest attempt at a put is known. A data node tries for a fraction of that."""

MOST: Final = 100_000
"""The newest attempts at so many writes are known at most, of half a kilobyte each. No first attempt is among them: it
is newer than no other.
"""


def known_key(store: str, key: str) -> str:
    """Return what a write of files is known as among those of all stores: who writes may have chosen its key."""
    return f"{store}/{key}"


class _Put(NamedTuple):
    """A put: the number of its newest attempt, and until when that is known, in seconds of the clock."""

    newest: int
    until: float


class NewestAttempts:
    """The number of the newest attempt at each put, by its idempotency key."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._puts: dict[str, _Put] = {}
        """Those come first whose newest attempt began first."""

    def begin(self, key: str, number: int) -> None:
        """Remember an attempt that begins. Raises as `check` does."""
        self.check(key, number)
        if number <= 1:
            return
        now = self._clock()
        self._puts.pop(key, None)
        self._puts[key] = _Put(number, now + _REMEMBERED_SECONDS)
        while len(self._puts) > MOST or self._puts[next(iter(self._puts))].until < now:
            del self._puts[next(iter(self._puts))]

    def check(self, key: str, number: int) -> None:
        """Raise an ``outcome-unknown`` problem if a newer attempt has begun: that one learns how the put ends.

        This one is not to be made again: a leader that came later would not know that it is late.
        """
        put = self._puts.get(key)
        if put is not None and put.newest > number:
            detail = f"attempt {put.newest} at this put has begun, and this is attempt {number}"
            raise problem(Code.OUTCOME_UNKNOWN, detail, retryable=False)
