"""A call tells whether it was applied, was not, or may have been. Scripted answers, virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.core.effects import Answer, Lost
from milepost.errors import (
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
from milepost.wire import PROBLEMS, Code, Outcome
from tests.client.core.world import (
    CHANGE,
    CUT,
    NO_LEADER,
    OK,
    READ,
    REFUSED,
    SILENT,
    A,
    C,
    Reaction,
    World,
    adding,
    answer,
    call,
    problem,
    to_leader,
)

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


def test_why_no_connection_came_about_counts_more_than_an_attempt_that_the_deadline_cut_off() -> None:
    untrusted = Lost("CERTIFICATE_VERIFY_FAILED", sent=False)
    world = World((2.9, untrusted), (5.0, Lost("the time for this attempt is up", sent=False)), addresses=[A])
    with pytest.raises(ConnectionFailed, match="CERTIFICATE"):
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
