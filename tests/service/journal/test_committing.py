"""What has been committed is in memory and is answered, even if the observer of the journal fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_server.journal import Journal
from milepost_server.journal.interface import NoObserver
from milepost_server.model.records import Session
from milepost_server.model.requests.base import Attempt, Request
from milepost_server.model.requests.sessions import OpenSession
from milepost_server.rules.decisions import Accepted
from tests.support.network.faults import Disturbance, FaultyPointers, lose_answer, undisturbed

pytestmark = pytest.mark.anyio


class Forever:
    """A leadership that nobody contests: what is tried here is what follows a commit."""

    def remaining(self, now: float) -> float:
        del now
        return 3600.0

    async def wait_lost(self) -> None:
        await asyncio.Event().wait()

    async def resign(self) -> None:
        pass


@pytest.mark.parametrize("disturbance", [undisturbed, lose_answer()], ids=["committed", "resolved"])
async def test_a_fault_of_the_observer_ends_the_leadership_and_loses_no_answer(
    tmp_path: Path, disturbance: Disturbance
) -> None:
    class Failing(NoObserver):
        def committed(self, request: Request, accepted: Accepted) -> None:
            del request, accepted
            raise ZeroDivisionError("by the test")

    store = FaultyPointers(EmbeddedPointers(tmp_path))
    await store.open()
    now = asyncio.get_running_loop().time
    journal = Journal("root", store, clock=now, wall=lambda: "now", observer=Failing())
    await journal.lead(Forever())
    running = asyncio.create_task(journal.run())
    store.disturb(disturbance)
    submitted = [journal.submit(OpenSession(Attempt(name), ttl=60.0), now() + 60.0) for name in ("a", "b")]
    try:
        async with asyncio.timeout(60.0):
            for pending in submitted:
                assert isinstance((await journal.wait(pending)).decision, Accepted)
            with pytest.raises(ZeroDivisionError):
                await running
        assert all(isinstance(journal._memory.view.state.get(f"sessions/{name}"), Session) for name in ("a", "b"))
    finally:
        running.cancel()
        await store.close()
