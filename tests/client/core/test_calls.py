"""One call over its attempts: leaders, retries, keys, deadlines, outcomes. Scripted answers, virtual time."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.core.body import body_of
from milepost.core.calls import KEY_LIFETIME, Reply
from milepost.core.effects import Answer, Lost, Send
from milepost.core.request import Request
from milepost.errors import (
    AccessDenied,
    AlreadyExists,
    ConnectionFailed,
    DeadlineExceeded,
    DiscardFailed,
    Fenced,
    MilepostError,
    OutcomeUnknown,
    Problem,
    ServerFault,
    SessionExpired,
    Unavailable,
)
from milepost.wire import PROBLEMS, Code, Outcome, digest_header
from tests.client.core.world import (
    CUT,
    NO_LEADER,
    REFUSED,
    SILENT,
    A,
    B,
    C,
    Reaction,
    World,
    answer,
    problem,
    to_leader,
)

READ: Request[Any] = Request("GET", "/v1/stores/s/handles?limit=5&token=a%2Fb")
CHANGE: Request[Any] = Request("DELETE", "/v1/stores/s/locks", headers={"Milepost-Session": "s1"})
OK = answer({})
NOT_THERE = answer(status=404)  # to HEAD


def adding(state: object = b"state") -> Request[Any]:
    return Request("POST", "/v1/stores/s/handles/h", headers={"Milepost-Session": "s1"}, body=body_of(state))


def call(world: World, request: Request[Any], timeout: float = 30.0) -> Reply[Any]:
    return world.run(world.caller.call(request, timeout=timeout))


# Finding the leader


def test_a_redirect_is_followed_with_method_body_headers_path_and_query() -> None:
    world = World(to_leader(C), OK)
    call(world, adding())
    assert [send.method for send in world.sent] == ["POST", "POST"]
    assert [send.url for send in world.sent] == [A + "/v1/stores/s/handles/h", C + "/v1/stores/s/handles/h"]
    assert world.bodies == [b"state", b"state"]
    assert world.sent[0].headers == world.sent[1].headers
    assert world.slept == []

    world = World(to_leader(C), OK)
    call(world, READ)
    assert world.sent[1].url == C + "/v1/stores/s/handles?limit=5&token=a%2Fb"


def test_the_leader_is_remembered() -> None:
    world = World(to_leader(C), OK, OK)
    call(world, CHANGE)
    call(world, READ)
    assert world.targets == [A, C, C]


def test_a_leader_that_is_reached_under_a_prefix_keeps_it() -> None:
    world = World(to_leader("https://gateway/milepost"), OK, OK)
    call(world, READ)
    call(world, CHANGE)
    assert world.sent[2].url == "https://gateway/milepost" + CHANGE.path


@pytest.mark.parametrize("without", [NO_LEADER, problem(Code.SHUTTING_DOWN), REFUSED, CUT, SILENT])
def test_one_that_cannot_help_is_passed_over_at_once(without: Answer | Lost) -> None:
    world = World(without, without, OK)
    call(world, CHANGE)
    assert world.targets == [A, B, C]
    assert world.slept == []


def test_a_remembered_leader_that_is_gone_is_forgotten() -> None:
    world = World(to_leader(C), OK, REFUSED, OK, OK)
    for _ in range(3):
        call(world, READ)
    assert world.targets == [A, C, C, A, A]


def test_after_a_round_without_a_leader_it_rests_and_asks_all_again() -> None:
    world = World(NO_LEADER, REFUSED, NO_LEADER, NO_LEADER, OK)
    call(world, CHANGE)
    assert world.targets == [A, B, C, A, B]
    assert len(world.slept) == 1


def test_a_leader_that_is_busy_is_asked_again_after_a_rest() -> None:
    world = World(to_leader(C), problem(Code.STORAGE_UNAVAILABLE), OK)
    call(world, CHANGE)
    assert world.targets == [A, C, C]
    assert len(world.slept) == 1


def test_replicas_that_send_round_in_a_circle_are_left_after_a_few_steps() -> None:
    circle: list[Reaction] = [to_leader(B), to_leader(A)] * 200
    world = World(*circle, addresses=[A, B])
    with pytest.raises(ConnectionFailed, match="circle"):
        call(world, CHANGE, timeout=2.0)
    assert world.now >= 1001.9
    assert len(world.sent) < 100


def test_https_is_never_left_for_http() -> None:
    world = World(to_leader("http://evil:1"), to_leader("https://b:1"), OK, addresses=["https://a:1", "https://b:1"])
    call(world, CHANGE)
    assert world.targets == ["https://a:1", "https://b:1", "https://b:1"]


@pytest.mark.parametrize("location", ["ftp://x/v1/", "/v1/relative", "http://user:secret@b:1/v1/stores/s/locks"])
def test_a_location_that_cannot_be_used_is_a_replica_that_cannot_help(location: str) -> None:
    world = World(answer(status=307, location=location), OK)
    call(world, CHANGE)
    assert world.targets == [A, B]


# Suspects


def paused(world: World, until: float, successor: str = C) -> Callable[[Send], Answer | Lost]:
    """A leads and is paused: it takes requests, and never answers. The others name it until one of them leads."""

    def react(send: Send) -> Answer | Lost:
        target = send.url.split("/v1/")[0]
        if target == A:
            world.now += send.timeout
            return SILENT
        world.now += 0.001
        if world.now < until:
            return to_leader(A)(send)
        return OK if target == successor else to_leader(successor)(send)

    return react


@pytest.mark.parametrize("leader", [None, A])
@pytest.mark.parametrize("addresses", [(A, B, C), (B, C), (B,), (C, B, A)])
def test_a_paused_leader_costs_a_write_no_more_than_its_lease_and_a_moment(
    addresses: tuple[str, ...], leader: str | None
) -> None:
    world = World(addresses=addresses)
    world.replicas.leader = leader
    world.script = [paused(world, 1004.5)] * 1000
    call(world, CHANGE)
    assert 1004.5 <= world.now <= 1004.8
    assert world.targets.count(A) == 1
    assert max(world.slept) <= 0.25
    assert len(world.sent) < 50


def test_other_calls_do_not_wait_for_a_suspect_either() -> None:
    world = World()
    world.script = [paused(world, 1003.1)] * 1000
    call(world, CHANGE)
    asked = len(world.sent)
    call(world, READ)
    assert world.targets[asked:] == [C]
    world.replicas.leader = None
    call(world, READ)
    assert world.targets[asked + 1 :] == [B, C]


def test_a_suspect_is_asked_again_when_it_was_one_for_as_long_as_it_was_waited_for() -> None:
    world = World()
    world.script = [paused(world, 2000.0)] * 1000
    with pytest.raises(OutcomeUnknown):
        call(world, CHANGE, timeout=14.0)
    begun = [at for at, target in zip(world.times, world.targets, strict=True) if target == A]
    assert begun[0] == 1000.0
    assert begun[1:] == pytest.approx([1006.0, 1012.0], abs=0.75)


def test_one_that_answers_after_all_is_no_suspect_any_more() -> None:
    world = World((3.0, SILENT), to_leader(A), OK, addresses=[A, B])
    with pytest.raises(OutcomeUnknown):
        call(world, CHANGE, timeout=3.0)
    assert world.replicas.suspected(A)
    world.replicas.answered(A)  # to another thread
    world.replicas.leader = B
    call(world, CHANGE)
    assert world.targets == [A, B, A]


def test_an_only_address_that_did_not_answer_is_asked_again_at_once() -> None:
    world = World((3.0, SILENT), OK, addresses=[A])
    call(world, CHANGE)
    assert world.targets == [A, A]
    assert world.now <= 1003.1


def test_when_all_are_suspects_all_are_asked() -> None:
    world = World((3.0, SILENT), (3.0, SILENT), (3.0, SILENT), OK, addresses=[A, B])
    call(world, CHANGE)
    assert world.targets == [A, B, A, B]
    assert world.now <= 1009.2


def test_who_had_no_time_to_answer_is_hardly_a_suspect() -> None:
    world = World((10.0, SILENT), OK, addresses=[A, B])
    with pytest.raises(OutcomeUnknown):
        call(world, CHANGE, timeout=0.1)
    world.now += 0.1
    call(world, CHANGE)
    assert world.targets == [A, A]


def test_a_long_poll_that_the_deadline_cuts_short_makes_no_suspect() -> None:
    world = World((30.0, SILENT), OK, addresses=[A, B])
    with pytest.raises(OutcomeUnknown):
        call(world, Request("POST", "/v1/stores/s/epoch", wait=20.0), timeout=10.0)
    call(world, CHANGE)
    assert world.targets == [A, A]


# Keys and attempts


def test_every_try_of_a_change_carries_the_same_key_and_its_count() -> None:
    world = World(CUT, NO_LEADER, problem(Code.OUTCOME_UNKNOWN), OK)
    call(world, CHANGE)
    assert world.header("Idempotency-Key") == ["id-1"] * 4
    assert world.header("Milepost-Attempt") == ["1", "2", "3", "4"]


def test_the_next_call_has_a_key_of_its_own() -> None:
    world = World(OK, OK)
    call(world, CHANGE)
    call(world, CHANGE)
    assert world.header("Idempotency-Key") == ["id-1", "id-2"]


def test_a_redirect_or_a_refused_connection_is_no_attempt() -> None:
    world = World(to_leader(B), REFUSED, OK)
    call(world, CHANGE)
    assert world.header("Milepost-Attempt") == ["1", "1", "1"]


def test_a_read_carries_no_key() -> None:
    world = World(CUT, OK)
    call(world, READ)
    assert world.header("Idempotency-Key") == [None, None]
    assert world.header("Milepost-Attempt") == [None, None]


def test_a_key_is_not_used_for_longer_than_the_service_surely_knows_it() -> None:
    world = World(CUT, *[(100.0, NO_LEADER)] * 20, addresses=[A])
    world.caller = world.make_caller(timeout=10_000.0)
    with pytest.raises(OutcomeUnknown, match="forgotten the idempotency key"):
        world.run(world.caller.call(CHANGE, attempt_timeout=200.0))
    assert KEY_LIFETIME <= world.now - 1000.0 < KEY_LIFETIME + 110


# What is never retried


@pytest.mark.parametrize("code", [code for code in Code if not PROBLEMS[code].retryable and code is not Code.INTERNAL])
def test_a_definitive_answer_is_raised_at_once(code: Code) -> None:
    world = World(problem(code, current="v9"))
    with pytest.raises(Problem) as raised:
        call(world, CHANGE)
    assert raised.value.code is code
    assert raised.value.current == "v9"
    assert len(world.sent) == 1


def test_a_fault_of_the_server_leaves_a_write_unknown_and_a_read_failed() -> None:
    with pytest.raises(OutcomeUnknown) as raised:
        call(World(problem(Code.INTERNAL)), CHANGE)
    assert isinstance(raised.value.__cause__, ServerFault)
    with pytest.raises(ServerFault):
        call(World(problem(Code.INTERNAL)), READ)


# Outcomes


def test_a_lost_answer_is_asked_for_again_and_may_be_a_replay() -> None:
    world = World((2.0, CUT), (1.0, answer({}, milepost_replayed="true")))
    reply = call(world, CHANGE)
    assert reply.began == 1000.0  # the replayed answer may be to the first attempt


def test_an_answer_that_is_no_replay_began_with_its_own_attempt() -> None:
    world = World((2.0, CUT), (1.0, OK))
    assert call(world, CHANGE).began == 1002.0


@pytest.mark.parametrize("doubt", [CUT, SILENT, problem(Code.OUTCOME_UNKNOWN), Answer(502, {}), Answer(504, {})])
def test_a_write_that_may_have_been_applied_ends_as_unknown(doubt: Answer | Lost) -> None:
    world = World(doubt, *[NO_LEADER] * 1000)
    with pytest.raises(OutcomeUnknown) as raised:
        call(world, CHANGE, timeout=3.0)
    assert raised.value.outcome is Outcome.UNKNOWN
    assert not raised.value.retryable  # not under another key, which the caller's own retry would have


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (NO_LEADER, Unavailable),
        (problem(Code.STORAGE_UNAVAILABLE), Unavailable),
        (problem(Code.TOO_MANY_REQUESTS), Unavailable),
        (REFUSED, ConnectionFailed),
    ],
)
def test_a_write_that_was_surely_not_applied_says_so(failure: Answer | Lost, error: type[MilepostError]) -> None:
    world = World(*[failure] * 1000)
    with pytest.raises(error) as raised:
        call(world, CHANGE, timeout=3.0)
    assert not isinstance(raised.value, OutcomeUnknown)
    assert world.now - 1000.0 <= 3.0


def test_a_read_is_never_of_unknown_outcome() -> None:
    world = World(*[(1.0, SILENT)] * 10)
    with pytest.raises(DeadlineExceeded):
        call(world, READ, timeout=3.0)
    world = World(*[CUT] * 1000)
    with pytest.raises(ConnectionFailed):
        call(world, READ, timeout=3.0)


def test_what_the_service_said_counts_more_than_an_attempt_that_the_deadline_cut_off() -> None:
    world = World((2.9, NO_LEADER), (5.0, Lost("no connection within 0.001 s", sent=False)), addresses=[A])
    with pytest.raises(Unavailable):
        call(world, READ, timeout=3.0)
    assert world.sent[-1].timeout < 0.1


def test_a_conflict_whose_outcome_is_unknown_is_raised_as_unknown() -> None:
    world = World(CUT, problem(Code.ALREADY_EXISTS, outcome=Outcome.UNKNOWN))
    with pytest.raises(OutcomeUnknown) as raised:
        call(world, adding())
    assert raised.value.outcome is Outcome.UNKNOWN
    assert isinstance(raised.value.__cause__, AlreadyExists)


def test_a_conflict_that_the_service_is_sure_of_settles_the_attempts_before() -> None:
    world = World(CUT, problem(Code.FENCED, current=9))
    with pytest.raises(Fenced) as raised:
        call(world, CHANGE)
    assert raised.value.current == 9


@pytest.mark.parametrize("code", [Code.SESSION_EXPIRED, Code.UNAUTHENTICATED, Code.STORAGE_FULL, Code.DIGEST_MISMATCH])
def test_other_refusals_do_not_settle_an_attempt_in_doubt(code: Code) -> None:
    world = World(CUT, problem(code))
    with pytest.raises(OutcomeUnknown) as raised:
        call(world, CHANGE)
    assert isinstance(raised.value.__cause__, Problem)
    assert raised.value.__cause__.code is code
    assert len(world.sent) == 2


def test_a_removal_whose_discard_fails_stands_whatever_comes_after_it() -> None:
    world = World(problem(Code.DISCARD_FAILED), CUT, *[NO_LEADER] * 1000)
    with pytest.raises(DiscardFailed) as raised:
        call(world, CHANGE, timeout=2.0)
    assert raised.value.outcome is Outcome.APPLIED
    world = World(problem(Code.DISCARD_FAILED), problem(Code.SESSION_EXPIRED))
    with pytest.raises(DiscardFailed):
        call(world, CHANGE)


# Time


def test_a_leader_is_looked_for_in_short_steps_that_grow_with_the_search() -> None:
    nobody: list[Reaction] = [REFUSED, problem(Code.NO_LEADER, retry_after=1)]
    world = World(*nobody * 1000, addresses=[A, B])
    with pytest.raises(Unavailable):
        call(world, CHANGE, timeout=60.0)
    moments = list(itertools.accumulate(world.slept, initial=0.0))
    assert all(rest <= 0.25 for rest, at in zip(world.slept, moments, strict=False) if at < 5.0)
    assert all(rest > 0.5 for rest, at in zip(world.slept[:-1], moments, strict=False) if at > 40.0)


def test_retry_after_is_honoured() -> None:
    world = World(problem(Code.NO_LEADER, retry_after=3), REFUSED, NO_LEADER, OK)
    call(world, CHANGE)
    assert len(world.slept) == 1
    assert 3.0 < world.slept[0] < 3.1


def test_when_the_service_asks_for_more_time_than_is_left_the_call_ends_at_once() -> None:
    world = World(problem(Code.TOO_MANY_REQUESTS, retry_after=60))
    with pytest.raises(Unavailable) as raised:
        call(world, CHANGE, timeout=5.0)
    assert raised.value.retry_after == 60
    assert world.now == 1000.0


def test_rests_grow_with_jitter_up_to_a_limit() -> None:
    world = World(*[problem(Code.STORAGE_UNAVAILABLE)] * 12, OK, addresses=[A])
    call(world, CHANGE)
    assert 0.025 <= world.slept[0] <= 0.05
    assert all(1.0 <= seconds <= 2.0 for seconds in world.slept[6:])
    assert len(set(world.slept)) == 12


def test_one_that_hangs_is_left_in_time_for_the_others() -> None:
    world = World((1000.0, SILENT), OK)
    call(world, CHANGE)
    assert world.targets == [A, B]
    assert world.now == 1003.0


def test_a_long_poll_may_take_as_long_as_it_was_asked_to() -> None:
    world = World((1000.0, SILENT), OK)
    call(world, Request("POST", "/v1/stores/s/epoch", wait=20.0), timeout=50.0)
    assert world.sent[0].timeout == 23.0


def test_a_body_may_take_time_by_its_size() -> None:
    world = World(OK, OK, OK, OK)
    world.replicas.leader = A
    call(world, adding(b"x" * 5 * 1024 * 1024))
    call(world, adding(b"x" * 25 * 1024 * 1024))
    call(world, adding(iter([b"x"])))
    assert [send.timeout for send in world.sent if send.method == "POST"] == [8.0, 28.0, 30.0]


# Bodies


def test_a_body_is_sent_again_with_its_digest_and_length() -> None:
    world = World(CUT, OK)
    call(world, adding([b"st", b"ate"]))
    assert world.bodies == [b"state", b"state"]
    assert world.header("Content-Length") == ["5", "5"]
    assert world.header("Content-Digest") == [digest_header(hashlib.sha256(b"state").hexdigest())] * 2


def test_what_comes_only_once_survives_a_refused_connection() -> None:
    world = World(OK, REFUSED, OK, OK)
    call(world, adding(iter([b"st", b"ate"])))
    assert [send.method for send in world.sent] == ["HEAD", "POST", "HEAD", "POST"]
    assert world.bodies == [None, None, None, b"state"]
    assert world.header("Content-Digest") == [None] * 4


def test_what_comes_only_once_and_was_taken_is_not_sent_again() -> None:
    world = World(OK, CUT)
    with pytest.raises(OutcomeUnknown):
        call(world, adding(iter([b"state"])))
    world = World(OK, NO_LEADER)
    with pytest.raises(Unavailable):
        call(world, adding(iter([b"state"])))
    world = World(OK, to_leader(B))
    with pytest.raises(ConnectionFailed, match="only once"):
        call(world, adding(iter([b"state"])))


def test_the_leader_is_found_before_bytes_that_come_only_once_set_out() -> None:
    world = World(to_leader(C), NOT_THERE, OK)
    call(world, adding(iter([b"st", b"ate"])))
    assert [send.method for send in world.sent] == ["HEAD", "HEAD", "POST"]
    assert world.targets == [A, C, C]


@pytest.mark.parametrize("scouted", [answer(status=500), answer(status=401)])
def test_what_the_leader_says_to_the_bytes_counts_not_what_it_said_to_the_scout(scouted: Answer) -> None:
    world = World(scouted, problem(Code.ALREADY_EXISTS))
    with pytest.raises(AlreadyExists):
        call(world, adding(iter([b"x"])))


def test_many_bytes_are_not_sent_to_whomever() -> None:
    many = adding(b"x" * 100_000)
    world = World(to_leader(C), NOT_THERE, OK, OK, CUT, to_leader(B), OK, OK)
    call(world, many)
    call(world, many)
    call(world, many)  # the leader moved
    assert [send.method for send in world.sent] == ["HEAD", "HEAD", "POST", "POST", "POST", "HEAD", "HEAD", "POST"]
    assert world.targets == [A, C, C, C, C, A, B, B]
    assert world.header("Milepost-Attempt")[-1] == "2"


def test_finding_the_leader_counts_against_the_deadline_and_knows_what_was_before() -> None:
    world = World(*[NO_LEADER] * 1000)
    with pytest.raises(Unavailable):
        call(world, adding(iter([b"x"])), timeout=5.0)
    assert world.now - 1000.0 <= 5.0
    world = World(NOT_THERE, CUT, *[NO_LEADER] * 1000)
    with pytest.raises(OutcomeUnknown):
        call(world, adding(b"x" * 100_000), timeout=5.0)


# Credentials


def test_the_token_goes_with_every_attempt_and_may_change() -> None:
    tokens = iter(["first", "second"])
    world = World(to_leader(B), OK)
    world.caller = world.make_caller(token=lambda: next(tokens))
    call(world, CHANGE)
    assert world.header("Authorization") == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("token", ["secret\r\nX: y", "  ", "sécret"])
def test_a_token_that_cannot_stand_in_a_header_is_refused_without_being_quoted(token: str) -> None:
    world = World()
    with pytest.raises(ValueError, match="printable") as raised:
        world.make_caller(token=token)
    assert "secret" not in str(raised.value)
    world.caller = world.make_caller(token=lambda: token)
    with pytest.raises(AccessDenied) as denied:
        call(world, CHANGE)
    assert "secret" not in str(denied.value)


def test_a_token_that_is_not_to_be_had_ends_the_call_as_far_as_it_came() -> None:
    def missing() -> str:
        raise FileNotFoundError("/var/run/secrets/token")

    world = World()
    world.caller = world.make_caller(token=missing)
    with pytest.raises(AccessDenied, match="FileNotFoundError") as denied:
        call(world, CHANGE)
    assert isinstance(denied.value.__cause__, FileNotFoundError)
    world = World(CUT)
    tokens: list[Callable[[], str]] = [lambda: "first", missing]
    world.caller = world.make_caller(token=lambda: tokens.pop(0)())
    with pytest.raises(OutcomeUnknown):
        call(world, CHANGE)


# Whatever happens


CERTAINLY_NOT = [NO_LEADER, REFUSED, problem(Code.STORAGE_UNAVAILABLE), problem(Code.TOO_MANY_REQUESTS, retry_after=1)]
IN_DOUBT = [CUT, SILENT, problem(Code.OUTCOME_UNKNOWN), Answer(502, {})]
SETTLED = [problem(Code.ALREADY_EXISTS), problem(Code.FENCED), problem(Code.NOT_LOCKED)]
UNSURE = problem(Code.ALREADY_EXISTS, outcome=Outcome.UNKNOWN)
ENDS = [OK, *SETTLED, problem(Code.SESSION_EXPIRED), UNSURE]
events = st.sampled_from([*CERTAINLY_NOT, *IN_DOUBT, *ENDS, to_leader(A), to_leader(C)])


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 5), events), max_size=12), st.floats(0.5, 20))
def test_whatever_happens_the_outcome_is_true(script: list[tuple[float, Reaction]], timeout: float) -> None:
    """Never "nothing was applied" while an attempt is in doubt, one key, counted attempts, one deadline."""
    world = World(*script, *[NO_LEADER] * 500)
    error: MilepostError | None = None
    try:
        call(world, adding(), timeout)
    except MilepostError as raised:
        error = raised
    seen = [reaction for _, reaction in script[: len(world.sent)]]
    doubt = any(reaction in IN_DOUBT for reaction in seen)
    assert world.now - 1000.0 <= timeout + 1e-6
    assert len(set(world.header("Idempotency-Key"))) == 1
    attempts = [int(str(attempt)) for attempt in world.header("Milepost-Attempt")]
    assert attempts == sorted(attempts)
    assert all(reaction not in ENDS for reaction in seen[:-1])
    last = seen[-1] if len(seen) == len(world.sent) else NO_LEADER
    if last is OK:
        assert error is None
    elif last in SETTLED:
        assert isinstance(error, Problem)
        assert not isinstance(error, OutcomeUnknown)
    elif doubt or last is UNSURE:
        assert isinstance(error, OutcomeUnknown)
    else:
        assert isinstance(error, (Unavailable, ConnectionFailed, DeadlineExceeded, SessionExpired))
