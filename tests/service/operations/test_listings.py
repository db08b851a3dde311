"""Long pages are put together in slices, with everything else in between, and tell of what is there by then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milepost_server.model.records import Handle, Record, Session, Store, handle_key, session_key, store_key
from tests.service.acting import STORE, actor
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig

pytestmark = pytest.mark.anyio

COUNT = 1000
STEP, SLICE = 0.5, 8.0
QUIET = replace(PROMPT, expire_interval_seconds=3600.0, deletion_interval_seconds=3600.0)


async def page_of_stores(running: Rig) -> list[str]:
    page = await running.operations.stores.list_page("", COUNT)
    return [each["store"] for each in page.stores]


async def page_of_handles(running: Rig) -> list[str]:
    page = await running.operations.handles.list_page(STORE, "", COUNT)
    return [each["name"] for each in page.handles]


async def page_of_sessions(running: Rig) -> list[str]:
    page = await running.operations.sessions.list_page("", COUNT)
    return [each["session"] for each in page.sessions]


def slowed(running: Rig) -> None:
    """Let each look at the clock be a step later, and so many records be there as if they had been loaded."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += STEP
        return now

    running.replica.loop_time.clock, running.replica.loop_time.seconds = clock, SLICE
    names = [f"n{number:04}" for number in range(COUNT - 1)]
    changes: list[tuple[str, Record | None]] = [(store_key(name), Store(name)) for name in names]
    changes += [(handle_key(STORE, name), Handle(name, "l.1", name, 1, "", "", "", 1, 1)) for name in names]
    changes += [(session_key(name), Session(name, 60.0, 1)) for name in names]
    running.replica.journal.read().view.state.apply(changes)


async def turns_of_others(work: asyncio.Task[list[str]]) -> int:
    """How often somebody who is always ready gets his turn before the work is done."""
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


@pytest.mark.parametrize("page", [page_of_stores, page_of_handles, page_of_sessions])
async def test_a_page_of_a_thousand_holds_nobody_up(
    tmp_path: Path, page: Callable[[Rig], Coroutine[Any, Any, list[str]]]
) -> None:
    async with rig(embedded(tmp_path), QUIET) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"state")
        slowed(running)
        going = asyncio.create_task(page(running))
        assert await turns_of_others(going) >= COUNT * STEP / SLICE
        assert len(await going) == COUNT


async def test_each_store_of_a_page_is_shown_as_of_the_revision_beside_it(tmp_path: Path) -> None:
    """The page is long enough for others to change what it comes to last."""
    async with rig(embedded(tmp_path), QUIET) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"state")
        slowed(running)
        loop_time, gate = running.replica.loop_time, asyncio.Event()
        next_turn = loop_time.wait

        async def wait() -> None:
            await gate.wait()
            await next_turn()

        loop_time.wait = wait  # type: ignore[method-assign]
        before = running.replica.journal.read().revision
        going = asyncio.create_task(running.operations.stores.list_page("", 2 * COUNT))
        await asyncio.sleep(0)
        await replace(a, store="z").add("pointer", b"state")
        gate.set()
        page = await going
        assert page.next is None
        first, last = page.stores[0], page.stores[-1]
        assert (first["store"], first["handles"], first["revision"]) == (STORE, COUNT, before)
        assert (last["store"], last["handles"], last["revision"] > before) == ("z", 1, True)
