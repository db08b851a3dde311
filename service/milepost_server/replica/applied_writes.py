"""Know the writes of files that were committed or tried, so that one that is sent again is answered and not made anew.

What was put may have been renamed, deleted or replaced since, and where something was deleted, something else may be.
Whoever sends other bytes under the same token or key is told so: to him it would look as if his bytes were there.

The data node that took the bytes of a file asks the leader to publish it, and asks again when it gets no answer. When
the first of these requests is served at last, the file may have been renamed, deleted or replaced: it must not be put
anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from milepost.wire import Code
from milepost_server.basics.problems import problem
from milepost_server.rules.decisions import Answer
from milepost_server.rules.requests.trees import PutFile, TreeRequest

REMEMBERED_SECONDS: Final = 4800.0
"""How long a write is known after it has been committed. Nothing is published with a token that was given longer ago.

So a body may take more than an hour.
"""

MOST: Final = 100_000
"""So many writes are known at most, of half a kilobyte each; Hadoop's client never sends one twice."""

_PUT_REMEMBERED_SECONDS = 600.0
"""How long the newest attempt at a put is known. A data node tries for a fraction of that."""

_MOST_PUTS: Final = 100_000
"""The newest attempts at so many writes are known at most, of half a kilobyte each. No first attempt is among them: it
is newer than no other.
"""


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
        self._puts[key] = _Put(number, now + _PUT_REMEMBERED_SECONDS)
        while len(self._puts) > _MOST_PUTS or self._puts[next(iter(self._puts))].until < now:
            del self._puts[next(iter(self._puts))]

    def check(self, key: str, number: int) -> None:
        """Raise an ``outcome-unknown`` problem if a newer attempt has begun: that one learns how the put ends.

        This one is not to be made again: a leader that came later would not know that it is late.
        """
        put = self._puts.get(key)
        if put is not None and put.newest > number:
            detail = f"attempt {put.newest} at this put has begun, and this is attempt {number}"
            raise problem(Code.OUTCOME_UNKNOWN, detail, retryable=False)
