"""Several parts are run as one: the error of one is the error of all, and nothing goes on behind it."""

from __future__ import annotations

import asyncio

import pytest

from milepost_server.basics.gathering import gather_or_cancel

pytestmark = pytest.mark.anyio


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
