"""Know the puts that have landed, and with which bytes, so that one that is sent again is answered and not made anew.

Its file may have been renamed, deleted or replaced since. Whoever sends other bytes under the same permit or key is
told so: to him it would look as if his bytes were there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from milepost.wire import Code
from service.basics.problems import problem
from service.rules.decisions import Answer
from service.rules.requests import PutFile

REMEMBERED_SECONDS: Final = 4800.0
"""How long a put is known after it has landed. Nothing is published with a permit that was given longer ago.

So a body may take more than an hour.
"""

MOST: Final = 100_000
"""So many puts are known at most, of half a kilobyte each; Hadoop's client never sends one twice."""


@dataclass(frozen=True, slots=True)
class LandedPut:
    """A put that has landed: what it was (`PutFile.fingerprint`), its first answer, and its blob; None if it is not
    known which one that was.

    ``until`` is until when it is known, in seconds of the clock.
    """

    fingerprint: str
    answer: Answer
    blob: str | None
    until: float


class LandedPuts:
    """The puts that have landed under this replica, by their idempotency keys."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._puts: dict[str, LandedPut] = {}
        """Those come first that landed first."""

    def note(self, key: str, put: PutFile, answer: Answer) -> None:
        """Remember that a put has landed. If its answer is a replay, it may have been with another blob than this."""
        now = self._clock()
        if not answer.replayed or key not in self._puts:
            self._puts.pop(key, None)
            known = None if answer.replayed else put.blob.key
            first = replace(answer, replayed=True)
            self._puts[key] = LandedPut(put.fingerprint(), first, known, now + REMEMBERED_SECONDS)
        while len(self._puts) > MOST or self._puts[next(iter(self._puts))].until < now:
            del self._puts[next(iter(self._puts))]

    def of(self, key: str) -> LandedPut | None:
        """Return the put of this key; None if it is not known to have landed."""
        return self._puts.get(key)


def check_same(landed: LandedPut, put: PutFile) -> None:
    """Raise an ``idempotency-mismatch`` problem unless this is the put that has landed: its path, and its bytes."""
    if landed.fingerprint != put.fingerprint():
        detail = "other bytes, or another file, were put with this permit or key: ask with another one"
        raise problem(Code.IDEMPOTENCY_MISMATCH, detail)
