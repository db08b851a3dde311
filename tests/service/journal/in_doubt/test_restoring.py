"""However much there is to be written back, nobody else waits for all of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_server.journal.in_doubt.restoring import Restoring
from milepost_server.journal.interface import NoObserver
from milepost_server.journal.loading import Loaded
from milepost_server.journal.proof import Proof
from milepost_server.memory.state import State

pytestmark = pytest.mark.anyio

RECORDS = 4000


class Counted(str):
    """A key; it is counted how often keys are compared or hashed, which is what takes time where there are many."""

    looks = 0

    def __lt__(self, other: str) -> bool:
        Counted.looks += 1
        return str.__lt__(self, other)

    def __hash__(self) -> int:
        Counted.looks += 1
        return str.__hash__(self)


async def longest_stretch(done: asyncio.Event) -> int:
    """How often at most keys were looked at between two turns of somebody else."""
    longest = 0
    while not done.is_set():
        before = Counted.looks
        await asyncio.sleep(0)
        longest = max(longest, Counted.looks - before)
    return longest


async def test_others_have_their_turn_while_it_is_found_out_what_differs(tmp_path: Path) -> None:
    there = Loaded(State(), Proof())
    there.proof.count((Counted(f"sessions/{number * 7919 % RECORDS}"), 1) for number in range(RECORDS))
    restoring = Restoring(EmbeddedPointers(tmp_path), State(), Proof(), 10.0, lambda _: None, NoObserver())
    done = asyncio.Event()
    looking = asyncio.create_task(longest_stretch(done))
    await asyncio.sleep(0)
    assert len([key async for key in restoring._differing(there)]) == RECORDS
    done.set()
    assert await looking < RECORDS
