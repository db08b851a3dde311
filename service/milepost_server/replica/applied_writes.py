"""Know the writes of files that have been committed, so that one that is sent again is answered and not made anew.

What was put may have been renamed, deleted or replaced since, and where something was deleted, something else may be.
Whoever sends other bytes under the same token or key is told so: to him it would look as if his bytes were there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.rules.decisions import Answer
from milepost_server.rules.requests import PutFile, TreeRequest

REMEMBERED_SECONDS: Final = 4800.0
"""How long a write is known after it has been committed. Nothing is published with a token that was given longer ago.

So a body may take more than an hour.
"""

MOST: Final = 100_000
"""So many writes are known at most, of half a kilobyte each; Hadoop's client never sends one twice."""


@dataclass(frozen=True, slots=True)
class AppliedWrite:
    """A write that has been committed: what it was (`TreeRequest.fingerprint`), its first answer, and the blob of a
    put.

    ``blob`` is None if it is not known which one that was, and for a write that has none.
    ``until`` is until when it is known, in seconds of the clock.
    """

    fingerprint: str
    answer: Answer
    blob: str | None
    until: float


class AppliedWrites:
    """The writes that have been committed under this replica, by their idempotency keys."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._writes: dict[str, AppliedWrite] = {}
        """The oldest come first."""

    def note(self, key: str, write: TreeRequest, answer: Answer) -> None:
        """Remember that a write has been committed. If its answer is a replay, it may have been with another blob
        than this.
        """
        now = self._clock()
        if not answer.replayed or key not in self._writes:
            self._writes.pop(key, None)
            known = None if answer.replayed or not isinstance(write, PutFile) else write.blob.key
            first = replace(answer, replayed=True)
            self._writes[key] = AppliedWrite(write.fingerprint(), first, known, now + REMEMBERED_SECONDS)
        while len(self._writes) > MOST or self._writes[next(iter(self._writes))].until < now:
            del self._writes[next(iter(self._writes))]

    def of(self, key: str) -> AppliedWrite | None:
        """Return the write of this key; None if it is not known to have been committed."""
        return self._writes.get(key)


def check_same(committed: AppliedWrite, write: TreeRequest) -> None:
    """Raise an ``idempotency-mismatch`` problem unless this is the write that has been committed: its kind, path
    and bytes.
    """
    if committed.fingerprint != write.fingerprint():
        detail = "this token or key was used for other bytes, for another path or another call: ask with another one"
        raise problem(Code.IDEMPOTENCY_MISMATCH, detail)
