"""Watches on a replica in this process: their bounds, and how they end."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from milepost.errors import Compacted, Problem
from milepost.wire import Code
from milepost_server.journal import Place
from milepost_server.model.records import Corrupt, store_key
from milepost_server.operations.watching import RunningWatch, WatchEnded, WatchOperations
from tests.service.acting import STORE, actor
from tests.support.network.faults import lose_answer, lose_request
from tests.support.servers.replicas import Rig, embedded, rig

pytestmark = pytest.mark.anyio
LONG = 60.0


async def events(watch: RunningWatch, count: int) -> list[dict[str, Any]]:
    """What so many events say."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        found += [json.loads(event.data) for event in await watch.next(LONG)]
    return found


async def names(watch: RunningWatch, count: int) -> list[str]:
    """The names in so many events."""
    return [each["name"] for each in await events(watch, count)]


def watch(running: Rig, opened: ExitStack, after: Place | None = None) -> RunningWatch:
    return opened.enter_context(running.operations.watching.watch("c", STORE, after))


async def test_the_number_of_watches_is_bounded_of_all_and_of_each_client(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        watching = WatchOperations(running.replica.journal, most=8)
        with ExitStack() as opened:
            opened.enter_context(watching.watch("a", STORE, None))
            with watching.watch("a", STORE, None), pytest.raises(Problem) as refused, watching.watch("a", STORE, None):
                pass
            assert refused.value.code is Code.TOO_MANY_REQUESTS
            for client in "abbccdd":
                opened.enter_context(watching.watch(client, STORE, None))
            with pytest.raises(Problem), watching.watch("e", STORE, None):
                pass
        with watching.watch("c", STORE, None):
            pass


async def test_a_slow_reader_is_told_so_once_events_are_gone_and_finds_them_gone(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        running.replica.journal.events()._most_events = 3
        a = await actor(running, "a")
        with ExitStack() as opened:
            slow = watch(running, opened)
            for name in "123":
                await a.add(name, b"state")
            assert await names(slow, 3) == ["1", "2", "3"]
            place = slow.place
            for name in "4567":
                await a.add(name, b"state")
            with pytest.raises(WatchEnded, match="compacted"):
                await slow.next(LONG)
            with pytest.raises(Compacted) as gone:
                watch(running, opened, place)
            await a.add("8", b"state")
            assert await names(watch(running, opened, Place(int(gone.value.extras["revision"]))), 1) == ["8"]


async def test_a_leader_in_doubt_shows_nothing_and_ends_its_watches(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        with ExitStack() as opened:
            begun = watch(running, opened)
            await a.add("shown", b"state")
            assert await names(begun, 1) == ["shown"]
            running.election.in_doubt = True
            with pytest.raises(WatchEnded, match="leader-changes"):
                await begun.next(0.0)
            running.election.in_doubt = False
            begun = watch(running, opened)
            waiting = asyncio.create_task(begun.next(LONG))
            await asyncio.sleep(0)
            running.election.lose()
            with pytest.raises(WatchEnded, match="leader-changes"):
                await waiting
            await running.leads()
            # nobody has written meanwhile, so the place is that of the new leadership too
            again = watch(running, opened, begun.place)
            await a.add("later", b"state")
            assert await names(again, 1) == ["later"]


async def test_commits_in_doubt_are_shown_if_they_were_committed_and_only_then(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        with ExitStack() as opened:
            begun = watch(running, opened)
            running.pointers.disturb(lose_answer(), lose_request())
            added = [await a.add(name, b"state") for name in ("kept", "lost")]
            shown = await events(begun, 2)
            assert [(each["name"], each["version"]) for each in shown] == [(each.name, each.version) for each in added]


async def test_an_orderly_end_shows_the_last_changes_and_a_place_for_the_next_leader(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        with ExitStack() as opened:
            begun = watch(running, opened)
            await a.add("last", b"state")
            await running.replica.resign()
            assert await names(begun, 1) == ["last"]
            with pytest.raises(WatchEnded, match="leader-changes"):
                await begun.next(LONG)
            place = begun.place
        await running.restart()
        with ExitStack() as opened:
            again = watch(running, opened, place)
            await (await actor(running, "b")).add("next", b"state")
            assert await names(again, 1) == ["next"]
            with pytest.raises(Compacted):
                watch(running, opened, Place(place.revision - 1))


async def test_a_store_whose_own_record_is_damaged_is_not_watched(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        state = running.replica.journal.read().view.state
        state.apply([(store_key(STORE), Corrupt(STORE, "not JSON"))])
        with pytest.raises(Problem) as refused, ExitStack() as opened:
            watch(running, opened)
        assert refused.value.code is Code.CORRUPT
