"""Sessions: opened, renewed, ended, expired, forgotten."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from milepost.wire import Code, Outcome
from milepost_server.model.processes import Process
from milepost_server.model.records import KEPT_KEYS, Corrupt, session_key
from milepost_server.model.requests.base import LEADER, Attempt, Request
from milepost_server.model.requests.handles import (
    Campaign,
    Clear,
    LockAll,
    LockHandle,
    ReleaseAll,
    ReleaseHandle,
    Remove,
    Resign,
    Scrub,
)
from milepost_server.model.requests.sessions import EndSession, ExpireSession, OpenSession
from tests.service.rules.bench import STORE, Bench, add, replacement, retried

ACTS: list[Request] = [
    add("s", "h"),
    replacement("s", "h", "l.1"),
    Remove(Attempt("s"), store_name=STORE, name="h"),
    LockHandle(Attempt("s"), store_name=STORE, name="h"),
    ReleaseHandle(Attempt("s"), store_name=STORE, name="h"),
    LockAll(Attempt("s"), store_name=STORE),
    ReleaseAll(Attempt("s"), store_name=STORE),
    Clear(Attempt("s"), store_name=STORE),
    Campaign(Attempt("s"), store_name=STORE),
    Resign(Attempt("s"), store_name=STORE),
    EndSession(Attempt("s")),
]


def test_a_session_is_created_then_renewed() -> None:
    bench = Bench()
    created = bench.accepted(OpenSession(Attempt("s"), ttl=15.0, holder="driver"))
    assert created.answer.created
    assert created.answer.body == {"session": "s", "ttl": 15.0, "holder": "driver"}
    created_revision = bench.session("s").created_revision
    same = bench.accepted(OpenSession(Attempt("s"), ttl=15.0, holder="driver"))
    assert (same.answer.created, same.changes) == (False, {})
    other = bench.accepted(OpenSession(Attempt("s"), ttl=30.0, holder="driver"))
    assert (other.answer.created, other.answer.body["ttl"]) == (False, 30.0)
    assert (bench.session("s").created_revision, bench.session("s").ttl) == (created_revision, 30.0)


def test_a_renewal_without_a_process_leaves_that_of_the_session() -> None:
    bench = Bench()
    first, second = Process("spark-1", 4711, "app-7", "http://spark-1:4040"), Process("spark-2")
    bench.done(OpenSession(Attempt("s"), 10.0, "driver", process=first))
    assert bench.accepted(OpenSession(Attempt("s"), 10.0, "driver")).changes == {}
    assert bench.session("s").process == first
    bench.done(OpenSession(Attempt("s"), 10.0, "driver", process=second))
    assert bench.session("s").process == second


def test_a_renewal_is_applied_once() -> None:
    bench = Bench("s")
    request = OpenSession(Attempt("s", "k"), ttl=42.0)
    first = bench.done(request)
    bench.done(OpenSession(Attempt("s", "later"), ttl=60.0))
    again = bench.accepted(retried(request, 2))
    assert (again.answer.replayed, again.answer.body, again.changes) == (True, first, {})
    assert bench.session("s").ttl == 60.0


def test_a_renewal_whose_answer_was_pushed_out_is_in_doubt() -> None:
    bench = Bench("s")
    request = OpenSession(Attempt("s", "k"), ttl=42.0)
    bench.done(request)
    for number in range(KEPT_KEYS):
        bench.done(OpenSession(Attempt("s", f"k{number}"), ttl=100.0 + number))
    assert bench.code(retried(request, 2)) is Code.OUTCOME_UNKNOWN


@pytest.mark.parametrize("act", ACTS, ids=lambda act: type(act).__name__)
def test_only_a_living_session_acts(act: Request) -> None:
    bench = Bench()
    assert bench.code(act) is Code.SESSION_UNKNOWN
    bench.done(OpenSession(Attempt("s"), ttl=10.0))
    bench.done(EndSession(Attempt("s")))
    assert bench.code(act) is Code.SESSION_EXPIRED
    bench.forget_sessions()
    assert bench.code(act) is Code.SESSION_UNKNOWN
    bench.put(session_key("s"), Corrupt("s", "not JSON"))
    assert bench.code(act) is Code.CORRUPT


def test_an_expiry_ends_the_very_session_that_it_means() -> None:
    bench = Bench("s")
    created_revision = bench.session("s").created_revision
    assert bench.accepted(ExpireSession(Attempt("s"), created_revision=created_revision + 1)).changes == {}
    assert bench.accepted(ExpireSession(Attempt("s"), created_revision=created_revision)).changes
    assert bench.session("s").ended == bench.context.revision
    assert bench.accepted(ExpireSession(Attempt("s"), created_revision=created_revision)).changes == {}
    assert bench.accepted(ExpireSession(Attempt("nobody"), created_revision=created_revision)).changes == {}


def test_an_id_is_used_again_once_it_is_forgotten_and_begins_anew() -> None:
    bench = Bench("s")
    first = bench.session("s").created_revision
    bench.done(EndSession(Attempt("s")))
    assert bench.code(OpenSession(Attempt("s"), ttl=10.0)) is Code.SESSION_EXPIRED
    bench.forget_sessions()
    assert bench.accepted(OpenSession(Attempt("s"), ttl=10.0)).answer.created
    assert bench.session("s").created_revision > first
    assert bench.session("s").ended == 0


def test_an_ended_session_is_scrubbed_after_an_hour_and_not_before() -> None:
    bench = Bench("s", "alive")
    bench.done(EndSession(Attempt("s")))
    keys = (session_key("s"), session_key("alive"))
    assert bench.accepted(Scrub(LEADER, keys=keys)).changes == {}
    bench.forget_sessions()
    assert bench.accepted(Scrub(LEADER, keys=keys)).changes == {session_key("s"): None}


THEIRS = OpenSession(Attempt("s", "k", client="b"), ttl=15.0, holder="secret", owner="b")


@pytest.mark.parametrize(
    "act", [*ACTS, OpenSession(Attempt("s"), ttl=9.0, owner="a")], ids=lambda act: type(act).__name__
)
def test_nobody_acts_in_a_session_that_another_client_opened(act: Request) -> None:
    bench = Bench()
    bench.done(THEIRS)
    before = bench.session("s")
    refused = bench.refused(replace(act, attempt=Attempt("s", "k", client="a")))
    assert refused.code is Code.FORBIDDEN
    assert "secret" not in refused.detail
    assert "'b'" not in refused.detail
    assert bench.session("s") == before


def test_a_retry_by_another_client_gets_neither_the_first_answer_nor_a_certain_refusal() -> None:
    bench = Bench()
    bench.done(THEIRS)
    again = replace(THEIRS, attempt=Attempt("s", "k", 2, "a"))
    refused = bench.refused(again)
    assert (refused.code, refused.outcome) == (Code.FORBIDDEN, Outcome.UNKNOWN)
    assert bench.accepted(replace(again, attempt=Attempt("s", "k", 2, "b"))).answer.replayed


@pytest.mark.parametrize("client", [None, "b"], ids=["who may act in all", "its owner"])
def test_its_owner_and_who_may_act_in_all_sessions_act_in_it(client: str | None) -> None:
    bench = Bench()
    bench.done(THEIRS)
    bench.done(OpenSession(Attempt("s", client=client), ttl=20.0, owner="other"))
    assert (bench.session("s").ttl, bench.session("s").owner) == (20.0, "b")
    bench.done(EndSession(Attempt("s", client=client)))
    assert bench.session("s").ended


def test_a_session_without_an_owner_is_anybodys() -> None:
    bench = Bench("s")
    assert bench.session("s").owner == ""
    bench.done(LockAll(Attempt("s", client="a"), store_name=STORE))
    bench.done(EndSession(Attempt("s", client="b")))


def test_the_id_of_a_forgotten_session_is_free_for_every_client() -> None:
    bench = Bench()
    bench.done(THEIRS)
    bench.done(EndSession(Attempt("s", client="b")))
    mine = OpenSession(Attempt("s", client="a"), ttl=9.0, owner="a")
    assert bench.code(mine) is Code.FORBIDDEN
    bench.forget_sessions()
    assert bench.accepted(mine).answer.created
    assert bench.session("s").owner == "a"
