"""Faults between the service and real backends.

Each wrapper passes every call on to the real part, but for the calls that a test asked to be disturbed: an answer that
gets lost on the way, a refusal for a reason of the store's own, a lease that runs out. These cannot be had from the
real part at a chosen moment.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from milepost_backends.contract import (
    PATIENCE_SECONDS,
    BackendError,
    BlobInfo,
    BlobStore,
    Change,
    Commit,
    CommitRefused,
    Election,
    Head,
    Leadership,
    PointerStore,
    Refusal,
    SignedRequest,
    StorageUnavailable,
    Unknown,
)
from tests.support.states import is_state

RealCommit = Callable[[], Awaitable[Commit]]
Disturbance = Callable[[RealCommit], Awaitable[Commit]]
"""Stands in for one commit; it may run the real one, or not."""


class ShiftedClock:
    """Monotonic seconds that a test can move on."""

    def __init__(self) -> None:
        self._shift = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._shift

    def real(self, now: float) -> float:
        """What is ``now`` here is this for who was not moved on: a lease that counts from real exchanges."""
        return now - self._shift

    def advance(self, seconds: float) -> None:
        """Let so many seconds have passed."""
        self._shift += seconds


class Faults:
    """What one kind of call fails with; ``met`` counts those that did."""

    def __init__(self) -> None:
        self._next: deque[BackendError | None] = deque()
        self._all: BackendError | None = None
        self.met = 0

    def once(self, error: BackendError, after: int = 0) -> None:
        """The next call fails, or the one ``after`` so many that go well."""
        self._next.extend([None] * after)
        self._next.append(error)

    def from_now_on(self, error: BackendError) -> None:
        """Every call fails until `heal`."""
        self._all = error

    def heal(self) -> None:
        """Nothing fails any more."""
        self._next.clear()
        self._all = None

    def check(self) -> None:
        """Raise what this call has to fail with, if it has to."""
        error = self._next.popleft() if self._next else self._all
        if error is not None:
            self.met += 1
            raise error


def refuse(reason: Refusal, detail: str = "by the test") -> Disturbance:
    """The store refuses, for a reason of its own, and writes nothing."""

    async def act(_: RealCommit) -> Commit:
        return CommitRefused(reason, detail)

    return act


def lose_answer(real_end: list[Commit] | None = None) -> Disturbance:
    """The group reaches the store, its answer gets lost; ``real_end`` takes the answer in."""

    async def act(commit: RealCommit) -> Commit:
        end = await commit()
        if real_end is not None:
            real_end.append(end)
        return Unknown("the answer was lost")

    return act


def lose_request() -> Disturbance:
    """The group gets lost on its way to the store."""

    async def act(_: RealCommit) -> Commit:
        return Unknown("nothing was heard")

    return act


async def undisturbed(commit: RealCommit) -> Commit:
    """This one passes, so that the next can be disturbed."""
    return await commit()


def before(act_first: Callable[[], Awaitable[object]]) -> Disturbance:
    """Something happens just before the group reaches the store."""

    async def act(commit: RealCommit) -> Commit:
        await act_first()
        return await commit()

    return act


class FaultyPointers:
    """A real `PointerStore`. ``take_overs`` fail take-over, load and confirm alike; ``after_take_over`` is called when
    one has succeeded; ``committed`` counts the commits that were begun.
    """

    def __init__(self, real: PointerStore) -> None:
        self.real = real
        self.limits = real.limits
        self.take_overs = Faults()
        self.committed = 0
        self.after_take_over: Callable[[], None] = lambda: None
        self._disturbances: deque[Disturbance] = deque()

    @property
    def place(self) -> str:
        return self.real.place

    @property
    def commit_delay(self) -> float:
        return self.real.commit_delay

    @property
    def bytes_sent(self) -> int:
        return self.real.bytes_sent

    @property
    def full(self) -> str | None:
        return self.real.full

    def disturb(self, *disturbances: Disturbance) -> None:
        """Disturb the next commits, one after the other."""
        self._disturbances.extend(disturbances)

    async def open(self) -> None:
        await self.real.open()

    async def close(self) -> None:
        await self.real.close()

    async def journals(self) -> Sequence[str]:
        return await self.real.journals()

    async def take_over(self, journal: str, ours: Head | None = None) -> Head:
        self.take_overs.check()
        head = await self.real.take_over(journal, ours)
        self.after_take_over()
        return head

    async def load(self, head: Head) -> AsyncIterator[Change]:
        self.take_overs.check()
        async for change in self.real.load(head):
            yield change

    async def commit(self, head: Head, changes: Sequence[Change], revision: int, digest: str | None = None) -> Commit:
        self.committed += 1

        def real() -> Awaitable[Commit]:
            return self.real.commit(head, changes, revision, digest)

        return await (self._disturbances.popleft()(real) if self._disturbances else real())

    async def confirm(self, head: Head) -> bool:
        self.take_overs.check()
        return await self.real.confirm(head)


class FaultyBlobs:
    """A real `BlobStore` that remembers the keys that were put, but for the deployment marker's, and those that were
    discarded, in order, how often a list was asked for, and how many bytes were read.

    Deletes wait while ``deletes_pass`` is not set; those of the ``stuck`` keys always fail. Whoever asks for a size,
    or for bytes, waits while ``looks_pass`` is not set.
    """

    def __init__(self, real: BlobStore) -> None:
        self.real = real
        self.gets = Faults()
        self.puts = Faults()
        self.deletes = Faults()
        self.lists = Faults()
        self.looks = Faults()
        self.signs = Faults()
        self.put_keys: list[str] = []
        self.discarded: list[str] = []
        self.listed = 0
        self.bytes_read = 0
        self.stuck: set[str] = set()
        self.deletes_pass = asyncio.Event()
        self.deletes_pass.set()
        self.looks_pass = asyncio.Event()
        self.looks_pass.set()

    async def open(self) -> None:
        await self.real.open()

    async def close(self) -> None:
        await self.real.close()

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = PATIENCE_SECONDS) -> int:
        self.puts.check()
        size = await self.real.put(key, stream, patience=patience)
        if is_state(key):
            self.put_keys.append(key)
        return size

    def get(self, key: str, start: int = 0, end: int | None = None, *, size: int | None = None) -> AsyncIterator[bytes]:
        self.gets.check()
        return self._passed(self.real.get(key, start, end, size=size))

    async def _passed(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        await self.looks_pass.wait()
        async for chunk in chunks:
            self.bytes_read += len(chunk)
            yield chunk

    async def size(self, key: str) -> int:
        self.looks.check()
        size = await self.real.size(key)
        await self.looks_pass.wait()
        return size

    async def delete(self, key: str) -> None:
        await self.deletes_pass.wait()
        self.deletes.check()
        if key in self.stuck:
            raise StorageUnavailable(f"{key} is stuck")
        await self.real.delete(key)
        self.discarded.append(key)

    def list(self, prefix: str, older_than: float) -> AsyncIterator[BlobInfo]:
        self.lists.check()
        self.listed += 1
        return self.real.list(prefix, older_than)

    async def sign_put(self, key: str, size: int, sha256: str, seconds: float) -> SignedRequest | None:
        self.signs.check()
        return await self.real.sign_put(key, size, sha256, seconds)

    async def sign_get(self, key: str, seconds: float) -> SignedRequest | None:
        return await self.real.sign_get(key, seconds)

    async def checked_digest(self, key: str) -> str | None:
        return await self.real.checked_digest(key)


class FaultyElection:
    """A real `Election` whose leadership a test can end, or throw into doubt; ``campaigns`` counts candidacies."""

    def __init__(self, real: Election, clock: ShiftedClock) -> None:
        self.real = real
        self.clock = clock
        self.in_doubt = False
        self.campaigns = 0
        self._current: _LosableLeadership | None = None

    async def open(self) -> None:
        await self.real.open()

    async def close(self) -> None:
        await self.real.close()

    async def campaign(self) -> Leadership:
        self.campaigns += 1
        self._current = _LosableLeadership(await self.real.campaign(), self)
        return self._current

    async def leader(self) -> str | None:
        return await self.real.leader()

    def lose(self) -> None:
        """The leadership of now is over, as when a lease could not be renewed; the next campaign is a real one."""
        assert self._current is not None
        self._current.over.set()


class _LosableLeadership:
    def __init__(self, real: Leadership, election: FaultyElection) -> None:
        self._real = real
        self._election = election
        self.over = asyncio.Event()

    def remaining(self, now: float) -> float:
        certain = not self._election.in_doubt and not self.over.is_set()
        return self._real.remaining(self._election.clock.real(now)) if certain else 0.0

    async def wait_lost(self) -> None:
        ends = [asyncio.ensure_future(self.over.wait()), asyncio.ensure_future(self._real.wait_lost())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    async def resign(self) -> None:
        await self._real.resign()
