"""The deletion queue: what is due goes, what lingers stays, what fails is tried again."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from milepost_backends.contract import StorageUnavailable
from milepost_backends.local.blobs import LocalBlobs
from milepost_server.blobs.deletion_queue import RETRY_SECONDS, DeletionQueue
from tests.support.network.faults import FaultyBlobs
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

KEY, OTHER = "flights/000000000001/a", "flights/000000000001/b"
AWAY = StorageUnavailable("by the test")


class Bin:
    """A deletion queue over a real blob store, at a time that the test sets."""

    def __init__(self, directory: Path) -> None:
        self.now = 0.0
        self.blobs = FaultyBlobs(LocalBlobs(directory))
        self.deletions = DeletionQueue(self.blobs, lambda: self.now)

    async def emptied(self, *keys: str) -> None:
        """Run the queue until these were discarded."""
        await self._run_until(lambda: set(keys) <= set(self.blobs.discarded))

    async def discards(self, count: int) -> None:
        """Run the queue until so many discards were made since the beginning."""
        await self._run_until(lambda: len(self.blobs.discarded) >= count)

    async def _run_until(self, holds: Callable[[], bool]) -> None:
        running = asyncio.create_task(self.deletions.run(0.001))

        async def as_expected() -> bool:
            return holds()

        await until(as_expected)
        running.cancel()
        await asyncio.wait((running,))


@pytest.fixture
async def bin_(tmp_path: Path) -> Bin:
    made = Bin(tmp_path)
    await made.blobs.open()
    return made


async def test_a_blob_lingers_until_it_is_due(bin_: Bin) -> None:
    bin_.deletions.schedule(KEY, 60.0)
    bin_.deletions.schedule(OTHER, 0.0)
    await bin_.emptied(OTHER)
    assert bin_.blobs.discarded == [OTHER]
    assert bin_.deletions.holds(KEY)
    bin_.now = 60.0
    await bin_.emptied(KEY)
    assert not bin_.deletions.holds(KEY)


async def test_a_discard_that_fails_is_tried_again_later(bin_: Bin) -> None:
    bin_.blobs.deletes.once(AWAY)
    assert await bin_.deletions.try_delete(KEY) is AWAY
    assert bin_.deletions.holds(KEY)
    bin_.now = RETRY_SECONDS
    await bin_.emptied(KEY)


async def test_two_callers_share_one_discard(bin_: Bin) -> None:
    bin_.blobs.deletes_pass.clear()
    both = [asyncio.ensure_future(bin_.deletions.delete(KEY)) for _ in range(2)]
    await asyncio.sleep(0)
    bin_.blobs.deletes_pass.set()
    await asyncio.gather(*both)
    assert bin_.blobs.discarded == [KEY]


async def test_a_caller_that_leaves_does_not_take_the_discard_along(bin_: Bin) -> None:
    bin_.blobs.deletes_pass.clear()
    leaving, staying = (asyncio.ensure_future(bin_.deletions.delete(KEY)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    bin_.blobs.deletes_pass.set()
    await staying
    assert bin_.blobs.discarded == [KEY]


async def test_a_discard_that_fails_when_nobody_waits_any_more_is_no_error(bin_: Bin) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    bin_.blobs.deletes_pass.clear()
    bin_.blobs.deletes.once(AWAY)
    leaving = asyncio.ensure_future(bin_.deletions.delete(KEY))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait((leaving,))
    bin_.blobs.deletes_pass.set()
    await bin_.deletions.delete(OTHER)  # a later discard of the same store has gone through
    del leaving  # its traceback knows the discard
    gc.collect()
    assert complaints == []


async def test_what_somebody_may_put_again_is_discarded_again_when_he_may_no_more(bin_: Bin) -> None:
    bin_.deletions.may_be_put(KEY, 60.0)
    await asyncio.gather(bin_.deletions.delete(KEY), bin_.deletions.delete(KEY))
    assert bin_.deletions.holds(KEY)
    await bin_.deletions.delete(KEY)
    bin_.now = 60.0
    await bin_.discards(3)
    bin_.deletions.schedule(KEY, 0.0)
    await bin_.discards(4)
    assert not bin_.deletions.holds(KEY)


async def test_what_was_not_discarded_while_somebody_might_put_it_is_discarded_once(bin_: Bin) -> None:
    bin_.deletions.may_be_put(KEY, 60.0)
    bin_.deletions.may_be_put(OTHER, 90.0)
    bin_.now = 60.0
    bin_.deletions.schedule(KEY, 0.0)
    await bin_.discards(1)
    assert not bin_.deletions.holds(KEY)
    await bin_.deletions.delete(OTHER)
    assert bin_.deletions.holds(OTHER)


async def test_what_lingers_is_forgotten_with_the_leadership(bin_: Bin) -> None:
    bin_.deletions.schedule(KEY, 0.0)
    bin_.deletions.clear()
    assert not bin_.deletions.holds(KEY)


async def test_nothing_is_kept_of_a_record_without_bytes(bin_: Bin) -> None:
    bin_.deletions.schedule("", 0.0)
    assert not bin_.deletions.holds("")
