"""No step of a blob store is waited for without end, also one that cannot be broken off.

The stuck store is a fake: a disk or a server that hangs cannot be had at a chosen step.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from milepost_backends.contract import PATIENCE_SECONDS, StorageUnavailable
from milepost_backends.local.blobs import LocalBlobs
from milepost_server.blobs.timeouts import BlobsWithTimeout
from tests.simulation.world.loop import VirtualLoop

pytestmark = pytest.mark.anyio

KEY = "d/flights/000000000001/a"
SHORT = 0.05


class StuckBlobs(LocalBlobs):
    """Real blobs, but that everything is stuck behind the first ``passes`` steps, and lets no cancellation through."""

    def __init__(self, directory: Path, passes: int) -> None:
        super().__init__(directory)
        self.free = asyncio.Event()
        self.passes = passes

    async def _pass(self) -> None:
        self.passes -= 1
        while self.passes < 0 and not self.free.is_set():
            with suppress(asyncio.CancelledError):
                await self.free.wait()

    async def size(self, key: str) -> int:
        await self._pass()
        return await super().size(key)

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = PATIENCE_SECONDS) -> int:
        async def passed() -> AsyncIterator[bytes]:
            async for chunk in stream:
                await self._pass()
                yield chunk

        return await super().put(key, passed(), patience=patience)

    async def get(  # type: ignore[override]
        self, key: str, start: int = 0, end: int | None = None, *, size: int | None = None
    ) -> AsyncIterator[bytes]:
        async for chunk in super().get(key, start, end, size=size):
            await self._pass()
            yield chunk


async def chunks(*parts: bytes, pause: float = 0.0) -> AsyncIterator[bytes]:
    """A body, of which each part takes its time."""
    for part in parts:
        await asyncio.sleep(pause)
        yield part


async def opened(directory: Path, passes: int) -> StuckBlobs:
    """A store that is open, stuck after so many steps."""
    blobs = StuckBlobs(directory, passes)
    await blobs.open()
    return blobs


async def test_a_look_that_is_stuck_ends_at_its_deadline(tmp_path: Path) -> None:
    stuck = await opened(tmp_path, passes=0)
    with pytest.raises(StorageUnavailable):
        await BlobsWithTimeout(stuck, SHORT).size(KEY)
    stuck.free.set()
    await stuck.close()


async def test_a_put_that_is_stuck_ends_at_its_deadline(tmp_path: Path) -> None:
    stuck = await opened(tmp_path, passes=1)
    with pytest.raises(StorageUnavailable):
        await BlobsWithTimeout(stuck, SHORT).put(KEY, chunks(b"one", b"two"))
    stuck.free.set()
    await stuck.close()


async def test_a_read_that_is_stuck_ends_at_its_deadline(tmp_path: Path) -> None:
    stuck = await opened(tmp_path, passes=2)
    await stuck.put(KEY, chunks(b"x" * 3_000_000))
    reading = BlobsWithTimeout(stuck, SHORT).get(KEY)
    assert await anext(reading)
    with pytest.raises(StorageUnavailable):
        await anext(reading)
    stuck.free.set()
    await stuck.close()


async def test_a_sender_may_take_its_time(tmp_path: Path) -> None:
    """Only what the store takes is counted."""
    blobs = await opened(tmp_path, passes=100)
    patient = BlobsWithTimeout(blobs, SHORT * 4)
    await patient.put(KEY, chunks(*[b"x"] * 5, pause=SHORT * 2))
    assert await patient.size(KEY) == 5
    assert b"".join([chunk async for chunk in patient.get(KEY)]) == b"xxxxx"
    await blobs.close()


async def test_what_a_body_raises_passes_through_and_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"a part"
        raise ZeroDivisionError("by the test")

    blobs = await opened(tmp_path, passes=100)
    with pytest.raises(ZeroDivisionError):
        await BlobsWithTimeout(blobs, 60.0).put(KEY, broken())
    assert [info async for info in blobs.list("", 0.0)] == []
    await blobs.close()


class SilentBlobs(LocalBlobs):
    """A store that takes nothing, ever."""

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = PATIENCE_SECONDS) -> int:
        del key, stream, patience
        await asyncio.sleep(3600.0)
        raise AssertionError("nobody waits so long")


@pytest.mark.timeout(60)
def test_a_deadline_comes_however_the_clock_rounds(tmp_path: Path) -> None:
    """From this moment on, 30 s on the clock are an instant less than 30: too little for any timer to add to it."""

    async def late() -> None:
        asyncio.get_running_loop().call_later(7200.0, str)  # the simulator's time goes on as long as something is due
        await asyncio.sleep(26.252)
        with pytest.raises(StorageUnavailable):
            await BlobsWithTimeout(SilentBlobs(tmp_path), 30.0).put(KEY, chunks(b"one"))

    VirtualLoop().run(late())  # type: ignore[abstract]  # as in the simulator, what is never called is left out
