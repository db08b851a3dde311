"""What a leader's check looks after that no group would meet, on a real API server, and when it lets go."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from milepost_backends.contract import Change, Refusal
from milepost_backends.kubernetes.configmaps.memory import CAP
from milepost_backends.kubernetes.configmaps.objects import HEAD
from tests.backends.kubernetes.places import LAYOUT, Outsider, memory_of, opened, spare_is_there, witness_is_current
from tests.backends.kubernetes.pointers.test_fence import paused
from tests.contracts.journals import ROOT, done, put, records, refused, taken_over, writes
from tests.support.servers.kubernetes import Site
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.kubernetes]

FIRST, SPARE = LAYOUT.segment(1), LAYOUT.segment(2)
FULL = [Change("full", b"x" * (CAP * 7 // 8))]
GARBLED = {"metadata": {"annotations": {HEAD: "garbled"}}}
THEIRS = {"data": {"theirs": "1"}}


def harmed(outsider: Outsider, name: str, harm: str) -> None:
    """Harm the segment, as somebody else's hands may."""
    if harm == "garble":
        outsider.patch(name, GARBLED)
    elif harm == "wipe":
        outsider.put(name, THEIRS)
    elif harm == "label":
        outsider.patch(name, {"metadata": {"labels": {"team": "a"}}})
    else:
        outsider.delete(name)


@pytest.mark.parametrize("harm", ["garble", "wipe", "label", "delete"])
async def test_the_empty_next_segment_is_looked_after(site: Site, outsider: Outsider, harm: str) -> None:
    """It never held anything; yet nobody could take over without it, or with one that makes no sense."""
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await spare_is_there(store)
        harmed(outsider, SPARE, harm)
        await store.check()
        await spare_is_there(store)
        assert outsider.states() == ["active", "empty"]
        found = outsider.get(SPARE)
        assert found["metadata"]["labels"].items() >= LAYOUT.labels.items()
        assert found["metadata"]["labels"].get("team") == ("a" if harm == "label" else None)
        assert not found.get("data")
        head = await put(store, head, FULL)
        assert outsider.states()[:2] == ["sealed", "empty"]
    async with opened(site.address()) as other:
        head, found = await taken_over(other)
        assert set(found) == {"a", "full"}
        assert set(await records(other, await put(other, head, writes(b=b"2")))) == {"a", "b", "full"}


async def test_what_somebody_made_in_place_of_the_next_segment_is_not_touched(
    site: Site, outsider: Outsider, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await spare_is_there(store)
        outsider.delete(SPARE)
        outsider.create(SPARE, **THEIRS)
        before = outsider.get(SPARE)
        with caplog.at_level(logging.WARNING):
            await store.check()
            head = await put(store, head, FULL)
        assert outsider.get(SPARE) == before
        assert f"{SPARE} is in the way" in caplog.text
        assert outsider.head(FIRST)["state"] == "active"
        await put(store, head, writes(a=b"2"))


@pytest.mark.parametrize("name", [LAYOUT.witness, LAYOUT.deployment_marker])
@pytest.mark.parametrize("harm", ["garble", "wipe", "delete", "older"])
async def test_the_witness_and_the_founding_mark_are_looked_after(
    site: Site, outsider: Outsider, name: str, harm: str
) -> None:
    """They are put back, so that later harm to segments is put right too. What somebody keeps in their place stays."""
    async with opened(site.address()) as store:
        await store.take_over(ROOT)
        older = outsider.get(name)["metadata"]["annotations"]
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))
        await store.check()
        await witness_is_current(store)
        if harm == "older":
            outsider.patch(name, {"metadata": {"annotations": older}})
        else:
            harmed(outsider, name, harm)
        await store.check()
        assert outsider.head(name)["term"] == head.term
        labels = outsider.get(name)["metadata"].get("labels", {})
        assert labels == (LAYOUT.labels if name == LAYOUT.witness else {})
        assert outsider.get(name).get("data") == (THEIRS["data"] if harm == "wipe" else None)
        harmed(outsider, FIRST, "wipe")
        head = await put(store, head, writes(b=b"2"))
        assert await records(store, head) == {"a": b"1", "b": b"2"}


async def test_the_witness_follows_the_groups_and_is_up_to_date_once_the_store_is_closed(
    site: Site, outsider: Outsider
) -> None:
    async with opened(site.address()) as store:
        head = await put(store, await store.take_over(ROOT), writes(a=b"1"))

        async def is_logged() -> bool:
            return bool(outsider.head(LAYOUT.witness)["revision"] == head.revision)

        await until(is_logged)
        sent = store.bytes_sent
        for number in range(20):
            head = await put(store, head, writes(a=b"%d" % number))
        assert (store.bytes_sent - sent) / 20 < 2000, "it is written once for many groups"
    assert outsider.head(LAYOUT.witness)["revision"] == head.revision


async def test_a_deposed_leader_makes_no_witness_and_its_successor_does(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as older, opened(site.address()) as leader:
        await put(older, await older.take_over(ROOT), writes(a=b"1"))
        head = await put(leader, await leader.take_over(ROOT), writes(a=b"2"))
        await witness_is_current(leader)
        outsider.delete(LAYOUT.witness)
        outsider.delete(LAYOUT.deployment_marker)
        await older.check()
        assert not {LAYOUT.witness, LAYOUT.deployment_marker} & set(outsider.all())
        await leader.check()
        assert outsider.head(LAYOUT.witness)["term"] == head.term


async def test_a_witness_is_not_made_on_the_word_of_a_segment_that_others_have_left_behind(
    site: Site, outsider: Outsider
) -> None:
    """Whoever put it back by hand, with the deposed leader's head, has not made it lead again."""
    async with opened(site.address()) as older, opened(site.address()) as leader:
        await put(older, await older.take_over(ROOT), writes(a=b"1"))
        saved = outsider.get(FIRST)
        head = await leader.take_over(ROOT)
        for number in range(3):
            await spare_is_there(leader)
            head = await put(leader, head, [Change("full", b"%d" % number * (CAP * 7 // 8))])
        await spare_is_there(leader)
        await witness_is_current(leader)
        kept = {field: saved["metadata"][field] for field in ("labels", "annotations")}
        outsider.put(FIRST, {"metadata": kept, "data": saved["data"]})
        outsider.delete(LAYOUT.witness)
        outsider.delete(LAYOUT.deployment_marker)
        await older.check()
        assert not {LAYOUT.witness, LAYOUT.deployment_marker} & set(outsider.all())


@pytest.mark.parametrize("harm", ["wipe", "delete"])
async def test_a_leader_deposed_before_its_check_reads_on_puts_nothing_right(
    site: Site, outsider: Outsider, harm: str
) -> None:
    """It listed while it led, so only the witness, read after the segment, tells."""
    async with opened(site.address()) as older, opened(site.address()) as leader:
        head = await older.take_over(ROOT)
        await spare_is_there(older)
        head = await put(older, head, FULL)
        await put(older, head, writes(a=b"1"))
        harmed(outsider, FIRST, "label")
        async with paused(older, "read") as pause:
            checking = asyncio.create_task(older.check())
            await pause.begun()
            new = await put(leader, await leader.take_over(ROOT), writes(a=b"2"))
            harmed(outsider, FIRST, harm)
            before = outsider.all().get(FIRST)
            pause.over.set()
            await checking
        assert outsider.all().get(FIRST) == before
        await leader.check()
        assert (await records(leader, new))["a"] == b"2"
        assert set(outsider.get(FIRST)["data"]) == {"full"}


@pytest.mark.parametrize("harm", ["wipe", "delete"])
async def test_the_check_of_a_deposed_leader_puts_nothing_right(site: Site, outsider: Outsider, harm: str) -> None:
    async with opened(site.address()) as older, opened(site.address()) as leader:
        await put(older, await older.take_over(ROOT), writes(a=b"1"))
        new = await put(leader, await leader.take_over(ROOT), writes(a=b"2"))
        harmed(outsider, FIRST, harm)
        before = outsider.all().get(FIRST)
        await older.check()
        assert outsider.all().get(FIRST) == before
        await leader.check()
        assert await records(leader, new) == {"a": b"2"}
        assert outsider.get(FIRST)["data"] == {"a": "2"}


async def test_groups_go_on_while_a_check_reads(site: Site, outsider: Outsider) -> None:
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        await spare_is_there(store)
        head = await put(store, head, FULL)
        head = await put(store, head, writes(a=b"1"))
        harmed(outsider, FIRST, "wipe")
        async with paused(store, "read") as pause:
            checking = asyncio.create_task(store.check())
            await pause.begun()
            async with asyncio.timeout(60):
                head = await put(store, head, writes(a=b"2"))
            pause.over.set()
            await checking
        assert set(outsider.get(FIRST)["data"]) == {"full"}
        await put(store, head, writes(a=b"3"))


async def test_a_deposed_leader_keeps_no_journal_in_memory(site: Site) -> None:
    """It forgets the journal at its next check, or when a group of it is refused."""
    async with opened(site.address()) as one, opened(site.address()) as other:
        await put(one, await one.take_over(ROOT), writes(a=b"1"))
        head = await put(other, await other.take_over(ROOT), writes(a=b"2"))
        await one.check()
        assert one._journals == {}
        await put(one, await one.take_over(ROOT), writes(a=b"3"))
        assert refused(await other.commit(head, writes(a=b"4"), head.revision + 1)) is Refusal.HEAD_MOVED
        assert other._journals == {}


async def test_a_group_that_ends_after_the_store_was_closed_begins_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, over, created = asyncio.Event(), asyncio.Event(), []
    async with opened(site.address()) as store:
        head = await store.take_over(ROOT)
        await spare_is_there(store)
        memory, replace, create = memory_of(store), store._maps.replace, store._maps.create

        async def held_up(*arguments: Any, **named: Any) -> Any:
            answer = await replace(*arguments, **named)
            committed.set()
            await over.wait()
            return answer

        async def seen(*arguments: Any) -> Any:
            created.append(arguments)
            return await create(*arguments)

        monkeypatch.setattr(store._maps, "replace", held_up)
        monkeypatch.setattr(store._maps, "create", seen)
        sealing = asyncio.create_task(store.commit(head, FULL, head.revision + 1))
        async with asyncio.timeout(60):
            await committed.wait()
    over.set()
    done(await sealing)
    assert memory.spare is None  # so a leader would make one
    for _ in range(10):
        await asyncio.sleep(0)
    assert created == []


async def test_a_fault_in_a_check_is_logged_and_the_next_one_comes(
    site: Site, outsider: Outsider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(site.address(), check_seconds=0.05) as store:
        await put(store, await store.take_over(ROOT), writes(a=b"1"))
        check, faults = store.check, [ZeroDivisionError("made by the test")]

        async def faulty() -> None:
            if faults:
                raise faults.pop()
            await check()

        monkeypatch.setattr(store, "check", faulty)

        async def is_put_right() -> bool:
            return not faults and outsider.get(FIRST).get("data") == {"a": "1"}

        harmed(outsider, FIRST, "wipe")
        await until(is_put_right)
        assert "failed by a bug" in caplog.text
