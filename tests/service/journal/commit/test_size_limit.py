"""How much the records of a journal may take, and who still has room when others have none."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from milepost.wire import Code
from milepost_backends.contract import GroupLimits, Head
from milepost_server.journal.commit.groups import Group, NoOpRequest, build
from milepost_server.journal.commit.size_limit import GROWING, SizeLimit
from milepost_server.journal.pending import PendingRequest
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Refused
from milepost_server.rules.memory.state import State
from milepost_server.rules.memory.view import View
from milepost_server.rules.records import Session, encode
from milepost_server.rules.requests import (
    Add,
    Attempt,
    Campaign,
    DeletePath,
    EndSession,
    OpenSession,
    PutFile,
    Remove,
    Request,
)

pytestmark = pytest.mark.anyio

MOST = 32_000
LIMITS = GroupLimits(journal_bytes=MOST)
REFUSED_FROM = {
    **dict.fromkeys(GROWING, 30_000),
    OpenSession: 31_000,
    Campaign: 31_000,
    Remove: None,
    EndSession: None,
    DeletePath: None,
}


def record(name: str, size: int) -> Session:
    return Session(name, 1.0, 1, holder="x" * size)


def decide(view: View, request: Request, context: DecisionContext) -> Decision:
    """Writes a record under the session's name that is as large as its key says, or deletes it."""
    del view, context
    size = int(request.key or "0")
    return Accepted(Answer(), {f"sessions/{request.session}": record(request.session, size) if size else None})


def built(view: View, size_limit: SizeLimit, *requests: Request) -> tuple[Group, list[NoOpRequest]]:
    context = DecisionContext(1, "abc", "now")
    group = Group(1, Head("root", 1, 1, "abc"), 1)
    queue = deque(PendingRequest(request, 0.0) for request in requests)

    def context_at(revision: int) -> DecisionContext:
        return replace(context, revision=revision)

    return group, build(queue, view, group, LIMITS, decide, context_at, size_limit, lambda: 0.0)


def test_files_are_limited_as_handles_are() -> None:
    assert {Add, PutFile} <= set(GROWING)


@pytest.mark.parametrize("kind", list(REFUSED_FROM))
async def test_who_makes_it_larger_is_refused_before_who_lets_go(kind: type[Request]) -> None:
    begin = REFUSED_FROM[kind]
    for taken in (29_000, 30_500, 31_500, 32_500):
        size_limit = SizeLimit(MOST)
        size_limit.taken = taken
        group, no_ops = built(View(State()), size_limit, kind(Attempt("a", "100")))
        if begin is None or taken < begin:
            assert (len(group.members), no_ops) == (1, [])
            assert group.growth == len("sessions/a") + len(encode("sessions/a", record("a", 100)))
        else:
            assert group.members == []
            (refusal,) = (entry.decision for entry in no_ops)
            assert isinstance(refusal, Refused)
            assert refusal.code is Code.STORAGE_FULL
            assert "MiB" in refusal.detail


async def test_in_one_group_only_the_request_that_makes_it_larger_is_refused() -> None:
    state = State()
    state.apply([(f"sessions/{name}", record(name, 500)) for name in ("a", "b")])
    size_limit = SizeLimit(MOST)
    size_limit.taken = MOST
    smaller = Add(Attempt("b", "400"))
    group, no_ops = built(View(state), size_limit, Add(Attempt("c", "1")), Remove(Attempt("a", "0")), smaller)
    assert [member.pending.request.session for member in group.members] == ["a", "b"]
    assert [entry.pending.request.session for entry in no_ops] == ["c"]
    assert group.growth < -500


async def test_what_waits_in_the_same_group_counts() -> None:
    size_limit = SizeLimit(MOST)
    requests = [Add(Attempt(f"s{number}", "1000")) for number in range(40)]
    group, no_ops = built(View(State()), size_limit, *requests)
    assert 24 < len(group.members) < 30
    assert len(group.members) + len(no_ops) == 40
    assert group.growth <= MOST * 30 // 32


async def test_without_a_bound_nothing_is_counted() -> None:
    size_limit = SizeLimit(None)
    size_limit.taken = 10**12
    group, _ = built(View(State()), size_limit, Add(Attempt("a", "1000")))
    assert (len(group.members), group.growth) == (1, 0)
