"""Bytes in memory are given away in pieces, with turns for others between them."""

from __future__ import annotations

import asyncio

import pytest

from milepost_server.basics.pieces import stream_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("size", [0, 1, 1024 * 1024, 3 * 1024 * 1024 + 1])
async def test_all_of_it_comes_in_pieces_of_a_megabyte_at_most(size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    pieces = [piece async for piece in stream_of(content[:size])]
    assert b"".join(pieces) == content[:size]
    assert max(map(len, pieces)) <= 1024 * 1024


async def test_others_have_a_turn_between_two_pieces() -> None:
    turns: list[int] = []

    async def another() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    beside = asyncio.create_task(another())
    seen = [len(turns) async for _ in stream_of(bytes(3 * 1024 * 1024))]
    beside.cancel()
    assert seen[0] < seen[1] < seen[2]
