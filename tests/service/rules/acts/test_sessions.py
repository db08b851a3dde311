"""Sessions: opened, renewed, ended, expired, forgotten."""

from __future__ import annotations

import pytest

from milepost.wire import Code
from service.rules.records import KEPT_KEYS, Corrupt, session_key
from service.rules.requests import (
    LEADER,
    Attempt,
    Campaign,
    Clear,
    EndSession,
    ExpireSession,
    LockAll,
    LockHandle,
    OpenSession,
    ReleaseAll,
    ReleaseHandle,
    Remove,
    Request,
    Resign,
    Scrub,
)
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
    born = bench.session("s").born
    same = bench.accepted(OpenSession(Attempt("s"), ttl=15.0, holder="driver"))
    assert (same.answer.created, same.changes) == (False, {})
    other = bench.accepted(OpenSession(Attempt("s"), ttl=30.0, holder="driver"))
    assert (other.answer.created, other.answer.body["ttl"]) == (False, 30.0)
    assert (bench.session("s").born, bench.session("s").ttl) == (born, 30.0)


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
    born = bench.session("s").born
    assert bench.accepted(ExpireSession(Attempt("s"), born=born + 1)).changes == {}
    assert bench.accepted(ExpireSession(Attempt("s"), born=born)).changes
    assert bench.session("s").ended == bench.context.revision
    assert bench.accepted(ExpireSession(Attempt("s"), born=born)).changes == {}
    assert bench.accepted(ExpireSession(Attempt("nobody"), born=born)).changes == {}


def test_an_id_is_used_again_once_it_is_forgotten_and_begins_anew() -> None:
    bench = Bench("s")
    first = bench.session("s").born
    bench.done(EndSession(Attempt("s")))
    assert bench.code(OpenSession(Attempt("s"), ttl=10.0)) is Code.SESSION_EXPIRED
    bench.forget_sessions()
    assert bench.accepted(OpenSession(Attempt("s"), ttl=10.0)).answer.created
    assert bench.session("s").born > first
    assert bench.session("s").ended == 0


def test_an_ended_session_is_scrubbed_after_an_hour_and_not_before() -> None:
    bench = Bench("s", "alive")
    bench.done(EndSession(Attempt("s")))
    keys = (session_key("s"), session_key("alive"))
    assert bench.accepted(Scrub(LEADER, keys=keys)).changes == {}
    bench.forget_sessions()
    assert bench.accepted(Scrub(LEADER, keys=keys)).changes == {session_key("s"): None}
