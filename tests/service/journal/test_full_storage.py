"""A full store: writes are refused, reads go on, and so do writes when there is room, without a restart.

The fault is put in, so that it comes at a chosen context. A disk that is really full is a test of the wire.
"""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path

import pytest

from milepost import errors
from milepost.wire import Outcome
from milepost_backends.contract import Refusal, StorageFull
from tests.service.acting import actor
from tests.support.network.faults import refuse
from tests.support.servers.replicas import embedded, rig

pytestmark = pytest.mark.anyio

FULL = StorageFull("no space left")


async def refused_as_full(call: Awaitable[object]) -> None:
    """The call ends as it must on a full store."""
    with pytest.raises(errors.StorageFull) as caught:
        await call
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert not caught.value.retryable


async def test_pointers_that_are_full_take_other_writes_at_once(tmp_path: Path) -> None:
    """What was refused wrote nothing, so memory stays right: no term is abandoned, and nothing is taken over or
    loaded.
    """
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        old = await a.add("pointer", b"old")
        head = running.replica.journal.head
        running.pointers.take_overs.from_now_on(FULL)
        for _ in range(5):
            running.pointers.disturb(refuse(Refusal.FULL, "no space left"))
            await refused_as_full(a.replace("pointer", old.version, b"new"))
        assert running.blobs.discarded == running.blobs.put_keys[1:]
        assert running.replica.journal.head == head
        assert (await a.listing(), await a.read("pointer")) == ([old], b"old")
        await a.replace("pointer", old.version, b"new")
        assert await a.read("pointer") == b"new"
        assert (await a.remove("pointer")).removed
        assert (running.replica.journal.term, running.replica.journal.terms_abandoned) == (head.term, 0)


async def test_blobs_that_are_full_take_states_again_when_there_is_room(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        old = await a.add("pointer", b"old")
        running.blobs.puts.from_now_on(FULL)
        await refused_as_full(a.add("another", b"other"))
        await refused_as_full(a.replace("pointer", old.version, b"new"))
        assert (await a.listing(), await a.read("pointer")) == ([old], b"old")
        assert (await a.remove("pointer")).removed
        running.blobs.puts.heal()
        await a.add("pointer", b"new")
        assert await a.read("pointer") == b"new"


async def test_who_leads_no_more_does_not_go_on_telling_of_full_blobs(tmp_path: Path) -> None:
    """Whether they still are is the next leader's to see, for nobody else puts any."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        running.blobs.puts.from_now_on(FULL)
        await refused_as_full(a.add("pointer", b"state"))
        assert running.replica.blobs.full == "no space left"
        await running.replica.resign()
        assert running.replica.blobs.full is None
