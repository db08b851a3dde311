"""Idempotency keys: one key is applied once, and gets the first answer again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from milepost.wire import MAX_LABEL_VALUE, MAX_LABELS, Code, Outcome
from milepost_server.model.records import KEPT_KEYS, KEPT_KEYS_BYTES, encode, handle_key
from milepost_server.model.requests.base import Attempt, Request, with_id
from milepost_server.model.requests.handles import (
    Add,
    Campaign,
    Clear,
    LockAll,
    LockHandle,
    ReleaseAll,
    ReleaseHandle,
    Remove,
    Resign,
)
from milepost_server.model.requests.sessions import EndSession, OpenSession
from milepost_server.rules import replays
from tests.service.rules.bench import STORE, Bench, add, blob, replacement, retried

HANDLE = "h"


def changing(bench: Bench) -> dict[str, Request]:
    """A request of each kind that would change something now: ``a`` and ``b`` hold the handle, ``a`` the epoch."""
    version = bench.handle(HANDLE).version
    return {
        "add": add("a", "new", key="k", epoch=1),
        "replace": replacement("a", HANDLE, version, key="k", epoch=1),
        "remove": Remove(Attempt("a", "k"), STORE, HANDLE, 1),
        "lock": LockHandle(Attempt("c", "k"), STORE, HANDLE),
        "release": ReleaseHandle(Attempt("b", "k"), STORE, HANDLE),
        "lock all": LockAll(Attempt("a", "k"), STORE),
        "release all": ReleaseAll(Attempt("a", "k"), STORE),
        "clear": Clear(Attempt("a", "k"), STORE, 1),
        "resign": Resign(Attempt("a", "k"), STORE),
        "end": EndSession(Attempt("a", "k")),
    }


KINDS = ["add", "replace", "remove", "lock", "release", "lock all", "release all", "clear", "resign", "end"]
IN_HANDLE = ["replace", "remove", "lock", "release"]
IN_STORE = ["lock all", "release all", "clear", "resign"]


@pytest.fixture
def bench() -> Bench:
    made = Bench("a", "b", "c", "pusher")
    made.done(Campaign(Attempt("a"), store_name=STORE))
    made.done(add("a", HANDLE, epoch=1))
    made.done(LockHandle(Attempt("b"), store_name=STORE, name=HANDLE))
    return made


def push(bench: Bench, kind: str) -> None:
    """Let the record that keeps answers of this kind forget all that it keeps now."""
    for number in range(KEPT_KEYS + 1):
        if kind in IN_STORE:
            bench.done(ReleaseAll(Attempt("pusher", f"push {number}"), STORE))
        else:
            lock = (LockHandle, ReleaseHandle)[number % 2]
            bench.done(lock(Attempt("pusher", f"push {number}"), STORE, HANDLE))


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_is_applied_once_and_gets_its_first_answer_again(bench: Bench, kind: str) -> None:
    request = changing(bench)[kind]
    first = bench.accepted(request)
    assert first.changes
    assert not first.answer.replayed
    again = bench.accepted(retried(request, 2))
    assert again.changes == {}
    assert again.answer == replace(first.answer, replayed=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_another_request_is_refused(bench: Bench, kind: str) -> None:
    request = changing(bench)[kind]
    bench.done(request)
    other: Request = EndSession(Attempt("a", "k")) if kind != "end" else OpenSession(Attempt("a", "k"), 10.0)
    if kind != "end":
        other = LockHandle(Attempt(request.session, "k"), STORE, "another")
    assert bench.code(other) is Code.IDEMPOTENCY_MISMATCH


@pytest.mark.parametrize(
    "other",
    [
        Add(Attempt("a", "k"), STORE, "other", 1, blob("x")),
        Add(Attempt("a", "k"), STORE, "new", 1, blob("other")),
        Remove(Attempt("a", "k"), STORE, "new", 1),
    ],
)
def test_the_same_request_is_one_of_the_same_kind_name_and_bytes(bench: Bench, other: Request) -> None:
    bench.done(add("a", "new", key="k", epoch=1))
    assert bench.code(other) is Code.IDEMPOTENCY_MISMATCH


def test_keys_of_other_sessions_and_stores_are_other_keys(bench: Bench) -> None:
    bench.done(LockAll(Attempt("a", "k"), STORE))
    for request in (LockAll(Attempt("b", "k"), STORE), LockAll(Attempt("a", "k"), "other")):
        assert bench.accepted(request).changes


def test_keys_survive_removal_and_a_new_handle_of_the_name(bench: Bench) -> None:
    bench.done(ReleaseHandle(Attempt("b"), store_name=STORE, name=HANDLE))
    removal = Remove(Attempt("a", "k"), STORE, HANDLE, 1)
    finish = bench.accepted(removal).finish
    assert finish is not None
    assert bench.accepted(retried(removal, 2)).finish == finish
    bench.finish(finish)
    assert bench.accepted(retried(removal, 3)).finish is None
    bench.done(add("a", HANDLE, "new", epoch=1))
    assert bench.done(retried(removal, 4)) == {"removed": True}
    assert bench.handle(HANDLE).version.endswith(str(bench.context.revision - 1))


def test_keys_survive_clear(bench: Bench) -> None:
    lock = LockHandle(Attempt("c", "k"), STORE, HANDLE)
    first = bench.done(lock)
    bench.done(Clear(Attempt("a"), STORE, 1))
    assert bench.done(retried(lock, 2)) == first


def test_keys_are_replayed_for_a_session_that_has_ended(bench: Bench) -> None:
    lock = LockHandle(Attempt("c", "k"), STORE, HANDLE)
    first = bench.done(lock)
    bench.done(EndSession(Attempt("c")))
    assert bench.done(retried(lock, 2)) == first


@pytest.mark.parametrize("kind", [kind for kind in (*IN_HANDLE, *IN_STORE) if kind != "replace"])
def test_a_retry_whose_answer_may_be_forgotten_is_not_applied_again(bench: Bench, kind: str) -> None:
    push(bench, kind)
    refused = bench.refused(retried(changing(bench)[kind], 2))
    assert refused.code is Code.OUTCOME_UNKNOWN


@pytest.mark.parametrize("kind", [*IN_HANDLE, *IN_STORE])
def test_a_first_attempt_is_applied_whatever_was_forgotten(bench: Bench, kind: str) -> None:
    push(bench, kind)
    assert bench.accepted(changing(bench)[kind]).changes


def test_a_replacement_may_be_tried_again_for_its_version_tells(bench: Bench) -> None:
    push(bench, "replace")
    request = changing(bench)["replace"]
    assert bench.accepted(retried(request, 2)).changes
    push(bench, "replace")
    refused = bench.refused(retried(request, 3))
    assert (refused.code, refused.outcome) == (Code.VERSION_MISMATCH, Outcome.UNKNOWN)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (add("a", HANDLE, key="k", epoch=1, attempt=2), Code.ALREADY_EXISTS),
        (replacement("a", HANDLE, "old", key="k", epoch=1, attempt=2), Code.VERSION_MISMATCH),
        (Remove(Attempt("a", "k", 2), STORE, HANDLE, 7), Code.FENCED),
        (LockHandle(Attempt("ended", "k", 2), STORE, HANDLE), Code.SESSION_EXPIRED),
    ],
)
def test_a_refusal_of_such_a_retry_does_not_say_not_applied(bench: Bench, request_: Request, code: Code) -> None:
    bench.done(OpenSession(Attempt("ended"), ttl=1.0))
    bench.done(EndSession(Attempt("ended")))
    first = bench.refused(retried(request_, 1))
    assert (first.code, first.outcome) == (code, None)
    push(bench, "lock")
    again = bench.refused(request_)
    assert (again.code, again.outcome, again.extras) == (code, Outcome.UNKNOWN, first.extras)


def test_after_ten_minutes_nothing_is_in_doubt_and_answers_are_gone(bench: Bench) -> None:
    lock = LockHandle(Attempt("c", "k"), STORE, HANDLE)
    bench.done(lock)
    push(bench, "lock")
    bench.forget_keys()
    bench.done(ReleaseHandle(Attempt("c"), store_name=STORE, name=HANDLE))
    assert bench.accepted(retried(lock, 2)).changes
    assert [entry.key for entry in bench.handle(HANDLE).answered] == ["k"]


def test_a_record_keeps_so_many_answers_and_tells_that_it_forgot(bench: Bench) -> None:
    assert bench.handle(HANDLE).evicted_answers_at == 0
    push(bench, "lock")
    kept = bench.handle(HANDLE)
    assert kept.answered[0].key == "push 1"
    assert len(kept.answered) == KEPT_KEYS
    assert kept.evicted_answers_at > 0


def test_large_answers_make_room_sooner_and_the_newest_is_kept_whatever_its_size(bench: Bench) -> None:
    """With labels as large as they may be, and many locks: no change may become impossible for what is kept."""
    labels = {f"k{number}": "\u00e9" * MAX_LABEL_VALUE for number in range(MAX_LABELS)}
    bench.done(add("a", "labelled", epoch=1, labels=labels))
    for number in range(KEPT_KEYS):
        version = bench.handle("labelled").version
        request = replacement("a", "labelled", version, key=f"r{number}", epoch=1)
        first = bench.done(request)
        assert bench.done(retried(request, 2)) == first
    kept = bench.handle("labelled")
    assert 1 <= len(kept.answered) < KEPT_KEYS
    assert kept.evicted_answers_at > 0
    assert len(encode(handle_key(STORE, "labelled"), kept)) < 4 * KEPT_KEYS_BYTES
    assert bench.refused(LockHandle(Attempt("b", "pushed?", 2), STORE, "labelled")).code is Code.OUTCOME_UNKNOWN


def test_hundreds_of_sessions_can_lock_a_handle(bench: Bench) -> None:
    sessions = [f"executor-{number:04d}-0123456789abcdef01234567" for number in range(400)]
    for session in sessions:
        bench.done(OpenSession(Attempt(session), ttl=10.0))
        bench.done(LockHandle(Attempt(session, "k"), STORE, HANDLE))
    held = bench.handle(HANDLE)
    assert len(held.locks) == len(sessions) + 2
    assert len(encode(handle_key(STORE, HANDLE), held)) < 4 * KEPT_KEYS_BYTES
    again = bench.accepted(LockHandle(Attempt(sessions[-1], "k", 2), STORE, HANDLE))
    assert again.answer.replayed
    assert again.answer.body["locks"] == sorted(["a", "b", *sessions])


def test_requests_without_a_key_get_an_id_that_no_client_can_send(bench: Bench) -> None:
    request = with_id(LockHandle(Attempt("c"), STORE, HANDLE), "1.7")
    assert request.key == " 1.7"
    assert bench.accepted(request).changes
    assert [entry.key for entry in bench.handle(HANDLE).answered] == [" 1.7"]


def test_such_ids_go_once_they_have_landed_and_push_nothing_out(bench: Bench) -> None:
    lock, release = LockHandle(Attempt("c"), STORE, HANDLE), ReleaseHandle(Attempt("c"), STORE, HANDLE)
    bench.done(retried(lock, 1, key="k"))
    bench.done(with_id(release, "1.1"))
    bench.done(with_id(lock, "1.2"))
    assert [entry.key for entry in bench.handle(HANDLE).answered] == ["k", " 1.1", " 1.2"]
    bench.commit()
    bench.done(with_id(release, "1.3"))
    bench.done(with_id(lock, "1.4"))
    kept = bench.handle(HANDLE)
    assert [entry.key for entry in kept.answered] == ["k", " 1.3", " 1.4"]
    assert kept.evicted_answers_at == 0
    assert bench.accepted(retried(lock, 2, key="k")).answer.replayed


def test_what_changes_nothing_is_not_remembered(bench: Bench) -> None:
    bench.done(LockHandle(Attempt("b", "k"), STORE, HANDLE))
    assert replays.first_answer(bench.view, LockHandle(Attempt("b", "k"), STORE, HANDLE)) is None


def test_a_listing_is_made_anew_for_it_is_too_large_to_be_kept(bench: Bench) -> None:
    request = LockAll(Attempt("c", "k"), STORE)
    bench.done(request)
    bench.done(add("a", "younger", epoch=1))
    again = bench.accepted(retried(request, 2))
    assert again.answer.replayed
    assert [handle["name"] for handle in again.answer.body["handles"]] == [HANDLE, "younger"]
    assert [entry.answer for entry in bench.store().answered] == [{"body": {}}]
