"""Waiting with a deadline: what ended just when nobody waits any more is no error of the loop's."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from milepost_backends.contract import PATIENCE_SECONDS, StorageUnavailable
from milepost_backends.local.blobs import LocalBlobs
from milepost_server.basics.waiting import gather_or_cancel, within
from milepost_server.blobs.timeouts import BlobsWithTimeout

pytestmark = pytest.mark.anyio


class FailingBlobs(LocalBlobs):
    """A fake, since the moment matters: each put fails once ``go`` is set."""

    def __init__(self, go: asyncio.Event) -> None:
        self._go = go

    async def put(self, key: str, stream: AsyncIterator[bytes], *, patience: float = PATIENCE_SECONDS) -> int:
        await self._go.wait()
        raise StorageUnavailable(f"{key} was not put, nor {stream} read, for {patience} s")


async def nothing() -> AsyncIterator[bytes]:
    for chunk in list[bytes]():
        yield chunk


async def by_deadline(go: asyncio.Event) -> None:
    async def fail() -> None:
        await go.wait()
        raise StorageUnavailable("no answer")

    await within(60.0, fail())


async def by_put(go: asyncio.Event) -> None:
    await BlobsWithTimeout(FailingBlobs(go), 60.0).put("key", nothing())


@pytest.mark.parametrize("wait", [by_deadline, by_put])
async def test_a_failure_in_the_moment_of_a_cancellation_is_seen(
    wait: Callable[[asyncio.Event], Awaitable[None]],
) -> None:
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    go = asyncio.Event()
    waiting = asyncio.ensure_future(wait(go))
    await asyncio.sleep(0.01)
    go.set()
    await asyncio.sleep(0)  # what is waited for ends in the next step, and the waiting task hears of both at once
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert waiting.cancelled()
    del waiting
    gc.collect()
    assert reported == []


async def test_the_error_of_one_part_is_raised_as_it_is_and_ends_the_others() -> None:
    ended: list[str] = []

    async def waiting() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waiting")

    async def failing() -> None:
        await asyncio.sleep(0)
        raise KeyError("failed")

    with pytest.raises(KeyError, match="failed"):
        await gather_or_cancel([waiting(), failing()])
    assert ended == ["waiting"]
