"""Group commit on a healthy store: everything lands in its first term."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.service.acting import actor
from tests.support.replicas import embedded, rig

pytestmark = pytest.mark.anyio

WRITES = 200


async def test_many_writers_share_groups_and_burn_no_term(tmp_path: Path) -> None:
    async with rig(embedded(tmp_path)) as running:
        a = await actor(running, "a")
        journal = running.replica.journal
        before = journal.groups_committed
        added = await asyncio.gather(*(a.add(f"h{number}", b"x" * 100) for number in range(WRITES)))
        assert len({entry.version for entry in added}) == WRITES
        assert journal.terms_burnt == 0
        assert journal.term == 1
        assert journal.groups_committed - before < WRITES
