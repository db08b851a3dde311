"""Removals: marked, then discarded, then dropped; and how each of these steps may fail."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from milepost.errors import DiscardFailed, Unavailable
from milepost.wire import Code, Outcome
from milepost_backends.contract import Refusal, StorageUnavailable
from milepost_server.blobs import deletion_queue
from tests.contracts.state_handle_store.frontends.frontend import Removal
from tests.service.acting import actor
from tests.support.network.faults import before, refuse, undisturbed
from tests.support.servers.replicas import PROMPT, embedded, rig

pytestmark = pytest.mark.anyio

REMOVED = Removal(removed=True)
HASTY_SECONDS = 0.3


async def test_a_discard_that_takes_too_long_is_reported_as_failed(tmp_path: Path) -> None:
    """The removal stands; a second one joins the discard that is still going on."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"state")
        running.blobs.deletes_pass.clear()

        async def hurry() -> None:
            """The commit of the mark has its usual time; what comes after it has not."""
            running.replica.submitter.request_seconds = HASTY_SECONDS

        running.pointers.disturb(before(hurry))
        with pytest.raises(DiscardFailed) as caught:
            await a.remove("pointer")
        assert (caught.value.outcome, caught.value.retryable) == (Outcome.APPLIED, True)
        assert await a.exists("pointer") is None
        running.replica.submitter.request_seconds = PROMPT.request_seconds
        again = asyncio.create_task(a.remove("pointer"))
        await asyncio.sleep(0)
        running.blobs.deletes_pass.set()
        assert await again == REMOVED
        assert running.blobs.discarded == running.blobs.put_keys


async def test_an_add_that_waits_too_long_for_a_discard_is_not_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own bytes can just as little be discarded now, which does not keep its caller from an answer."""
    monkeypatch.setattr(deletion_queue, "TRY_SECONDS", 0.1)
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"old")
        running.blobs.deletes.once(StorageUnavailable("by the test"))
        with pytest.raises(DiscardFailed):
            await a.remove("pointer")
        running.replica.submitter.request_seconds = HASTY_SECONDS
        running.blobs.deletes_pass.clear()
        with pytest.raises(Unavailable) as caught:
            await a.add("pointer", b"new")
        assert (caught.value.code, caught.value.outcome) == (Code.STORAGE_UNAVAILABLE, Outcome.NOT_APPLIED)
        assert await a.exists("pointer") is None
        running.replica.submitter.request_seconds = PROMPT.request_seconds
        running.blobs.deletes_pass.set()
        assert await a.remove("pointer") == REMOVED
        await running.emptied_trash()
        assert sorted(running.blobs.discarded) == sorted(running.blobs.put_keys)


async def test_a_record_that_cannot_be_dropped_is_dropped_later(tmp_path: Path) -> None:
    """The mark has been committed and the bytes are gone, so the handle is removed, whatever becomes of its record."""
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        await a.add("pointer", b"state")

        running.pointers.disturb(undisturbed, refuse(Refusal.DENIED))
        assert await a.remove("pointer") == REMOVED
        assert [entry.removing for entry in await a.listing()] == [True]
        assert await a.exists("pointer") is None
        assert await a.remove("pointer") == REMOVED
        assert await a.listing() == []


async def test_of_two_who_remove_at_once_both_are_told_that_it_is_removed(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a, b = await actor(running, "a"), await actor(running, "b")
        await a.add("pointer", b"state")
        ends = await asyncio.gather(a.remove("pointer"), b.remove("pointer"))
        assert list(ends) == [REMOVED, REMOVED]
        assert running.blobs.discarded == running.blobs.put_keys
