"""Short words for what the suites do to a journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from milepost_backends.contract import BackendError, Change, Commit, CommitRefused, Done, Head, PointerStore, Refusal
from tests.support.waiting import until

ROOT = "root"


def done(end: Commit) -> Head:
    """Give the head after a commit that must have been committed."""
    assert isinstance(end, Done), end
    return end.head


def refused(end: Commit) -> Refusal:
    """Tell why a commit was refused, which it must have been."""
    assert isinstance(end, CommitRefused), end
    return end.reason


def writes(**values: bytes | None) -> list[Change]:
    """Make a group of changes."""
    return [Change(key, value) for key, value in values.items()]


async def put(store: PointerStore, head: Head, changes: Sequence[Change]) -> Head:
    """Commit a group that must be committed, and give the head after it."""
    return done(await store.commit(head, changes, head.revision + max(1, len(changes))))


async def records(store: PointerStore, head: Head) -> dict[str, bytes]:
    """Give what `load` gives, which is each key once and no value None."""
    found: dict[str, bytes] = {}
    async for key, value in store.load(head):
        assert key not in found
        assert value is not None
        found[key] = value
    return found


async def taken_over(store: PointerStore) -> tuple[Head, dict[str, bytes]]:
    """Take the root journal over, as every leader does before it reads."""
    head = await store.take_over(ROOT)
    return head, await records(store, head)


async def taken_over_at_last(store: PointerStore) -> tuple[Head, dict[str, bytes]]:
    """Take the root journal over once the store answers again."""
    found: list[tuple[Head, dict[str, bytes]]] = []

    async def succeeds() -> bool:
        try:
            found.append(await taken_over(store))
        except BackendError:
            return False
        return True

    await until(succeeds, 120)
    return found[0]


class SteadyWriter:
    """Commits one group after the other, and takes the root journal over again where one was not committed."""

    def __init__(self, store: PointerStore) -> None:
        self.acknowledged: set[str] = set()
        """The keys of the groups that were acknowledged."""
        self._store = store
        self._failures = 0
        self._stopping = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Write within the block, which begins once writes are acknowledged."""
        self._writing = asyncio.create_task(self._write())
        try:
            await self.more()
            yield
            self._stopping.set()
            await self._writing
        finally:
            self._writing.cancel()
            await asyncio.wait([self._writing])

    async def more(self) -> None:
        """Wait until more was acknowledged."""
        before = len(self.acknowledged)
        await self._comes_about(lambda: len(self.acknowledged) > before + 20)

    async def failed(self) -> None:
        """Wait until one more group was not."""
        before = self._failures
        await self._comes_about(lambda: self._failures > before)

    async def _comes_about(self, holds: Callable[[], bool]) -> None:
        async def does() -> bool:
            return holds() or self._writing is None or self._writing.done()

        await until(does, 120)

    async def _write(self) -> None:
        head, _ = await taken_over(self._store)
        number = 0
        while not self._stopping.is_set():
            number += 1
            end = await self._store.commit(head, writes(**{f"k{number}": b"1"}), head.revision + 1)
            if isinstance(end, Done):
                head = end.head
                self.acknowledged.add(f"k{number}")
            else:
                self._failures += 1
                head, _ = await taken_over_at_last(self._store)
