"""What may be decided while the store is full: nothing that grows, but sessions for those who come to make room."""

from __future__ import annotations

from typing import cast

import pytest

from milepost.wire import Code
from milepost_backends.contract import PointerStore
from milepost_server.journal.commit.growth_check import GrowthCheck
from milepost_server.rules.decide import decide as rules_decide
from milepost_server.rules.decisions import Accepted, Decision, DecisionContext, Refused
from milepost_server.rules.memory.state import State
from milepost_server.rules.memory.view import View
from milepost_server.rules.requests import (
    Add,
    Attempt,
    BlobRef,
    Campaign,
    EndSession,
    MakeDirectory,
    OpenSession,
    PutFile,
    Remove,
    Request,
    with_id,
)

LIVING = 64
RECORDS = 1024


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
