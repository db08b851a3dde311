"""How much the records of a journal may take, and who still has room when others have none."""

from __future__ import annotations

from collections import deque
from typing import cast

import pytest
from msgspec.structs import replace

from milepost.wire import Code
from milepost_backends.contract import GroupLimits, Head, PointerStore
from milepost_server.journal.commit.groups import Group, NoOpRequest, build
from milepost_server.journal.commit.room import GROWING, GrowthCheck, SizeLimit
from milepost_server.journal.pending import PendingRequest
from milepost_server.memory.state import State
from milepost_server.memory.view import View
from milepost_server.model.records import Session, encode
from milepost_server.model.requests.base import Attempt, BlobRef, Request, with_id
from milepost_server.model.requests.handles import Add, Campaign, PlaceJob, Remove, Replace
from milepost_server.model.requests.moves import ImportRecords
from milepost_server.model.requests.sessions import EndSession, OpenSession
from milepost_server.model.requests.trees import DeletePath, MakeDirectory, PutFile, RollBack
from milepost_server.rules.decide import decide as rules_decide
from milepost_server.rules.decisions import Accepted, Answer, Decision, DecisionContext, Refused

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

LIVING = 64
RECORDS = 1024


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


def test_files_and_a_job_that_is_moved_here_are_limited_as_handles_are() -> None:
    assert {Add, PutFile, ImportRecords, PlaceJob} <= set(GROWING)


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


@pytest.mark.parametrize("replaces", [True, False])
async def test_a_rollback_is_limited_as_a_replace_is_if_it_contains_one(replaces: bool) -> None:
    size_limit = SizeLimit(MOST)
    size_limit.taken = 30_500
    attempt = Attempt("a", "100")
    group, no_ops = built(View(State()), size_limit, RollBack(attempt, replace=Replace(attempt) if replaces else None))
    assert (len(group.members), len(no_ops)) == ((0, 1) if replaces else (1, 0))


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


class Disk:
    """A store that is full while a test says so; the room asks it for nothing else."""

    full: str | None = "no room is left"


class Desk:
    """Decides requests one after the other, each of which is committed at once."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.view = View(State())
        self._decide = GrowthCheck(cast(PointerStore, self.disk)).deciding(rules_decide)
        self._revision = 0

    def decide(self, request: Request, *, is_committed: bool = True) -> Decision:
        self._revision += 1
        context = DecisionContext(self._revision, "abc", "now")
        decision = self._decide(self.view, with_id(request, str(self._revision)), context)
        if is_committed and isinstance(decision, Accepted):
            self.view.state.apply(decision.changes.items())
        return decision

    def opens(self, session: str, *, ttl: float = 60.0, is_committed: bool = True) -> bool:
        return isinstance(self.decide(OpenSession(Attempt(session), ttl=ttl), is_committed=is_committed), Accepted)

    def ends(self, session: str) -> None:
        assert isinstance(self.decide(EndSession(Attempt(session))), Accepted)

    def forgets(self, session: str) -> None:
        """As the maintenance does ten minutes after its end."""
        self.view.state.apply([(f"sessions/{session}", None)])


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_what_grows_is_refused_and_all_else_goes_on(desk: Desk) -> None:
    desk.disk.full = None
    assert desk.opens("a")
    assert isinstance(desk.decide(Add(Attempt("a"), store_name="s", name="there")), Accepted)
    desk.disk.full = "no room is left"
    refused = desk.decide(Add(Attempt("a"), store_name="s", name="more"))
    assert isinstance(refused, Refused)
    assert (refused.code, refused.detail) == (Code.STORAGE_FULL, "no room is left")
    for grows in (
        PutFile(Attempt(""), "s", "file", blob=BlobRef("key", 1, "d")),
        MakeDirectory(Attempt(""), "s", "directory"),
    ):
        refused = desk.decide(grows)
        assert isinstance(refused, Refused)
        assert refused.code is Code.STORAGE_FULL
    for request in (Remove(Attempt("a"), store_name="s", name="there"), Campaign(Attempt("a"), store_name="s")):
        assert isinstance(desk.decide(request), Accepted)


def test_while_it_is_full_so_many_sessions_may_live(desk: Desk) -> None:
    assert [desk.opens(f"s{number}") for number in range(LIVING + 2)] == [True] * LIVING + [False] * 2
    desk.disk.full = None
    assert desk.opens("more")
    desk.disk.full = "full again"
    assert [desk.opens(f"t{number}") for number in range(LIVING + 1)] == [True] * LIVING + [False]


def test_sessions_that_ended_make_room_for_as_many_others(desk: Desk) -> None:
    for number in range(LIVING):
        assert desk.opens(f"s{number}")
    for number in range(3):
        desk.ends(f"s{number}")
    assert [desk.opens(f"t{number}") for number in range(4)] == [True, True, True, False]


def test_one_after_the_other_may_come_and_remove_something(desk: Desk) -> None:
    """However many they are, and what stays of them for a while is bounded all the same."""
    for number in range(RECORDS):
        assert desk.opens(f"s{number}"), number
        desk.ends(f"s{number}")
    assert not desk.opens("more")
    desk.forgets("s0")
    desk.forgets("s1")
    assert [desk.opens(f"t{number}") for number in range(3)] == [True, True, False]


def test_what_never_landed_takes_no_room(desk: Desk) -> None:
    assert all(desk.opens(f"s{number}", is_committed=False) for number in range(4 * LIVING))


def test_a_renewal_is_no_growth(desk: Desk) -> None:
    for number in range(LIVING):
        assert desk.opens(f"s{number}")
    assert not desk.opens("more")
    assert all(desk.opens("s0", ttl=ttl) for ttl in (70.0, 80.0))
