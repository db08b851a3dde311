"""Group commit on a healthy store: everything is committed in its first term."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from milepost_server.model.records import Handle
from milepost_server.model.requests.base import Attempt, is_leaders
from milepost_server.model.requests.handles import LockHandle, ReleaseHandle
from tests.service.acting import STORE, actor
from tests.support.servers.replicas import embedded, rig

pytestmark = pytest.mark.anyio

WRITES = 200


async def test_many_writers_share_groups_and_burn_no_term(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        journal = running.replica.journal
        before = journal.groups_committed
        added = await asyncio.gather(*(a.add(f"h{number}", b"x" * 100) for number in range(WRITES)))
        assert len({entry.version for entry in added}) == WRITES
        assert journal.terms_abandoned == 0
        assert journal.term == 1
        assert journal.groups_committed - before < WRITES


async def test_changes_without_a_key_do_not_pile_up_in_the_record(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        await (await actor(running, "a")).add("h", b"x")
        await actor(running, "b")
        for _ in range(10):
            await running.operations.perform(LockHandle(Attempt("b"), STORE, "h"))
            await running.operations.perform(ReleaseHandle(Attempt("b"), STORE, "h"))
        record = running.replica.journal.read().view.handle(STORE, "h")
        assert isinstance(record, Handle)
        assert len([entry for entry in record.answered if is_leaders(entry.key)]) == 1
