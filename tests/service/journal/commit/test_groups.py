"""How much is decided in one go: what takes long is divided, and others are served in between.

Deciding takes no time here but what a decision says, on a clock of the test.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from milepost.wire import Code
from milepost_backends.contract import GroupLimits, Head
from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_server.journal import Journal
from milepost_server.journal.commit.groups import WORK_SECONDS, Group, NoOpRequest, build
from milepost_server.journal.commit.room import SizeLimit
from milepost_server.journal.pending import PendingRequest
from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.records import Session
from milepost_server.model.requests.base import Attempt, Request
from milepost_server.model.requests.sessions import EndSession, OpenSession
from milepost_server.rules.decide import decide as rules_decide
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Refused
from tests.service.journal.test_committing import Forever

pytestmark = pytest.mark.anyio

COST = WORK_SECONDS / 4


class Toil:
    """Decides requests, each of which takes so long; one that ends a session is refused."""

    def __init__(self, cost: float) -> None:
        self.cost = cost
        self.now = 1000.0
        self.decided: list[str] = []

    def clock(self) -> float:
        return self.now

    def decide(self, view: View, request: Request, context: DecisionContext) -> Decision:
        if not isinstance(request, OpenSession | EndSession):
            return rules_decide(view, request, context)
        self.now += self.cost
        self.decided.append(request.session)
        if isinstance(request, EndSession):
            return Refused(Code.SESSION_UNKNOWN, "as this test has it")
        return Accepted(Answer(), {f"sessions/{request.session}": Session(request.session, 1.0, context.revision)})


def built(toil: Toil, queue: deque[PendingRequest]) -> tuple[Group, list[NoOpRequest]]:
    context, group = DecisionContext(1, "abc", "now"), Group(1, Head("root", 1, 1, "abc"), 1)

    def context_at(revision: int) -> DecisionContext:
        return replace(context, revision=revision)

    view, size_limit = View(State()), SizeLimit(None)
    return group, build(queue, view, group, GroupLimits(), toil.decide, context_at, size_limit, toil.clock)


def waiting(kind: type[OpenSession] | type[EndSession], count: int) -> deque[PendingRequest]:
    return deque(PendingRequest(kind(Attempt(f"s{number}")), 0.0) for number in range(count))


@pytest.mark.parametrize("kind", [OpenSession, EndSession], ids=["accepted", "refused"])
async def test_a_group_ends_with_the_time_for_it(kind: type[OpenSession] | type[EndSession]) -> None:
    toil, queue = Toil(COST), waiting(kind, 10)
    taken: list[int] = []
    while queue:
        group, no_ops = built(toil, queue)
        taken.append(len(group.members) + len(no_ops))
    assert taken == [4, 4, 2]
    assert toil.decided == [f"s{number}" for number in range(10)]


async def test_what_takes_longer_by_itself_is_decided_alone() -> None:
    toil, queue = Toil(10 * WORK_SECONDS), waiting(OpenSession, 3)
    assert [len(built(toil, queue)[0].members) for _ in range(3)] == [1, 1, 1]


async def test_what_takes_no_time_to_speak_of_is_not_divided() -> None:
    toil, queue = Toil(WORK_SECONDS / 1000), waiting(OpenSession, 256)
    assert len(built(toil, queue)[0].members) == 256


@asynccontextmanager
async def led(directory: Path, toil: Toil) -> AsyncIterator[Journal]:
    store = EmbeddedPointers(directory)
    await store.open()
    journal = Journal("root", store, clock=toil.clock, wall=lambda: "now", decide=toil.decide)
    await journal.lead(Forever())
    running = asyncio.create_task(journal.run())
    try:
        yield journal
    finally:
        running.cancel()
        await asyncio.wait((running,))
        await store.close()


async def test_others_are_served_while_a_burst_of_refusals_is_decided(tmp_path: Path) -> None:
    toil = Toil(COST)
    async with led(tmp_path, toil) as journal:
        seen = [toil.now]

        async def another() -> None:
            while True:
                seen.append(toil.now)
                await asyncio.sleep(0)

        beside = asyncio.create_task(another())
        burst = [journal.submit(EndSession(Attempt(f"s{number}")), toil.now + 600.0) for number in range(100)]
        await asyncio.gather(*(journal.wait(pending) for pending in burst))
        beside.cancel()
        assert len(toil.decided) * COST > 20 * WORK_SECONDS
        assert max(late - early for early, late in pairwise(seen)) < WORK_SECONDS + 2 * COST
        assert toil.decided == [f"s{number}" for number in range(100)]


async def test_who_has_been_committed_is_answered_while_others_still_come(tmp_path: Path) -> None:
    """Refusals without end, none of which is in a group: the one write among them is answered all the same."""
    toil = Toil(COST)
    async with led(tmp_path, toil) as journal:
        over = asyncio.Event()
        number = 0

        def more() -> None:
            nonlocal number
            number += 1
            pending = journal.submit(EndSession(Attempt(f"s{number}")), toil.now + 600.0)
            pending.then += (lambda _: None if over.is_set() else more(),)

        for _ in range(20):
            more()
        written = journal.submit(OpenSession(Attempt("writer"), ttl=60.0), toil.now + 600.0)
        async with asyncio.timeout(20.0):
            served = await journal.wait(written)
        over.set()
        assert isinstance(served.decision, Accepted)
