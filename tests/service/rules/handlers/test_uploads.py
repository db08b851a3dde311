"""Uploads: announced, taken by one handle at most, or ended when their time is up."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from milepost.wire import Code, Outcome
from milepost_server.memory.view import View
from milepost_server.model.records import Corrupt, Upload, upload_key
from milepost_server.model.requests.base import LEADER, Attempt, BlobRef, Request, UploadRef
from milepost_server.model.requests.handles import Add, Campaign, Clear, CreateUpload, ExpireUpload, Replace, Scrub
from milepost_server.model.requests.sessions import EndSession
from milepost_server.rules.decide import decide
from milepost_server.rules.decisions import Accepted, DecisionContext, Refused
from tests.service.rules.bench import STORE, Bench, add, blob

CONTENT = blob("bytes")
ANNOUNCED = BlobRef("", CONTENT.size, CONTENT.sha256)


@pytest.fixture
def bench() -> Bench:
    return Bench("a", "b")


def create(
    upload: str = "u", session: str = "a", store: str = STORE, key: str | None = None, attempt: int = 1, **more: Any
) -> CreateUpload:
    lying = replace(CONTENT, key=f"blob-{upload}")
    return CreateUpload(Attempt(session, key, attempt), store_name=store, upload=upload, blob=lying, ttl=900.0, **more)


def ref(upload: str = "u") -> UploadRef:
    """An upload whose bytes were seen to be there."""
    return UploadRef(upload, replace(CONTENT, key=f"blob-{upload}"))


def add_from(
    upload: UploadRef, session: str = "a", name: str = "h", key: str | None = None, attempt: int = 1, **more: Any
) -> Add:
    return Add(Attempt(session, key, attempt), store_name=STORE, name=name, blob=ANNOUNCED, upload=upload, **more)


def replace_from(upload: UploadRef, version: str, key: str | None = None, attempt: int = 1, **more: Any) -> Replace:
    return Replace(
        Attempt("a", key, attempt), store_name=STORE, name="h", version=version, blob=ANNOUNCED, upload=upload, **more
    )


def recorded(bench: Bench, upload: str = "u") -> Upload:
    record = bench.state.get(upload_key(STORE, upload))
    assert isinstance(record, Upload), record
    return record


def stage(view: View, request: Request, context: DecisionContext, group: int) -> None:
    """Put what a request changes into flight."""
    decision = decide(view, request, context)
    assert isinstance(decision, Accepted), decision
    view.stage(decision.changes, group)


EXPIRE = ExpireUpload(LEADER, store_name=STORE, upload="u")


def test_an_upload_is_announced_under_a_durable_record(bench: Bench) -> None:
    accepted = bench.accepted(create(key="k"))
    assert (accepted.answer.body, accepted.answer.created) == ({"upload": "u"}, True)
    record = recorded(bench)
    assert (record.blob, record.size, record.sha256) == ("blob-u", CONTENT.size, CONTENT.sha256)
    assert (record.session, record.ttl, record.created_revision, record.ended) == (
        "a",
        900.0,
        bench.context.revision,
        0,
    )
    assert [upload for _, upload in bench.state.pending_uploads()] == [record]


def test_a_handle_takes_the_bytes_and_ends_the_upload_in_one_commit(bench: Bench) -> None:
    bench.done(create())
    accepted = bench.accepted(add_from(ref()))
    assert set(accepted.changes) == {f"stores/{STORE}/handles/h", upload_key(STORE, "u")}
    assert (accepted.discards, accepted.orphans) == ((), ())
    handle = bench.handle("h")
    assert (handle.blob, handle.size, handle.sha256) == ("blob-u", CONTENT.size, CONTENT.sha256)
    assert (recorded(bench).ended, recorded(bench).blob) == (bench.context.revision, "")
    assert not list(bench.state.pending_uploads())


def test_a_replacement_takes_the_bytes_and_discards_the_old_ones(bench: Bench) -> None:
    version = bench.done(add("a", "h", "old"))["version"]
    bench.done(create())
    accepted = bench.accepted(replace_from(ref(), version))
    assert (accepted.discards, bench.handle("h").blob) == ((blob("old").key,), "blob-u")
    assert recorded(bench).ended


def test_one_upload_becomes_one_handle_at_most(bench: Bench) -> None:
    bench.done(create())
    version = bench.done(add_from(ref()))["version"]
    assert bench.code(add_from(ref(), name="other")) is Code.UPLOAD_UNKNOWN
    assert bench.code(replace_from(ref(), version)) is Code.UPLOAD_UNKNOWN


def test_of_two_in_flight_the_second_waits_for_the_first(bench: Bench) -> None:
    bench.done(create())
    view = bench.view
    stage(view, add_from(ref()), bench.context, 7)
    second = decide(view, add_from(ref(), name="other"), bench.context)
    assert isinstance(second, Refused)
    assert (second.code, second.depends) == (Code.UPLOAD_UNKNOWN, 7)


def test_any_living_session_may_use_an_upload_also_after_its_makers_end(bench: Bench) -> None:
    bench.done(create(session="a"))
    bench.done(EndSession(Attempt("a")))
    assert bench.done(add_from(ref(), session="b"))["locks"] == ["b"]


def test_an_upload_is_of_one_store(bench: Bench) -> None:
    bench.done(create(store="other"))
    assert bench.code(add_from(ref())) is Code.UPLOAD_UNKNOWN


def test_an_upload_that_nobody_made_is_unknown(bench: Bench) -> None:
    assert bench.code(add_from(ref())) is Code.UPLOAD_UNKNOWN


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (None, Code.UPLOAD_UNKNOWN),
        (replace(CONTENT, key="elsewhere"), Code.UPLOAD_UNKNOWN),
        (BlobRef("blob-u", CONTENT.size - 1, ""), Code.DIGEST_MISMATCH),
        (BlobRef("blob-u", CONTENT.size, "0" * 64), Code.DIGEST_MISMATCH),
    ],
    ids=["nothing", "of another upload", "cut short", "another digest"],
)
def test_only_bytes_that_were_seen_to_be_right_are_taken(bench: Bench, found: BlobRef | None, code: Code) -> None:
    bench.done(create())
    assert bench.code(add_from(UploadRef("u", found))) is code
    assert not recorded(bench).ended
    bench.done(add_from(ref()))


@pytest.mark.parametrize("announced", [replace(ANNOUNCED, size=1), replace(ANNOUNCED, sha256="0" * 64)])
def test_a_reference_says_what_the_upload_was_made_for(bench: Bench, announced: BlobRef) -> None:
    bench.done(create())
    assert bench.code(replace(add_from(ref()), blob=announced)) is Code.DIGEST_MISMATCH
    assert not recorded(bench).ended


def test_a_refused_request_leaves_the_upload_for_another_try(bench: Bench) -> None:
    version = bench.done(add("b", "h"))["version"]
    bench.done(create())
    assert bench.code(add_from(ref())) is Code.ALREADY_EXISTS
    assert bench.code(replace_from(ref(), "l.999")) is Code.VERSION_MISMATCH
    assert bench.code(replace_from(ref(), version)) is Code.NOT_LOCKED
    bench.done(Campaign(Attempt("b"), store_name=STORE))
    assert bench.code(add_from(ref(), name="other")) is Code.FENCED
    assert not recorded(bench).ended
    bench.done(add_from(ref(), name="other", epoch=1))


def test_an_upload_needs_a_session_but_no_epoch(bench: Bench) -> None:
    bench.done(Campaign(Attempt("b"), store_name=STORE))
    bench.done(create())
    assert bench.code(create("v", session="nobody")) is Code.SESSION_UNKNOWN
    bench.done(EndSession(Attempt("a")))
    assert bench.code(create("v", session="a")) is Code.SESSION_EXPIRED


def test_when_its_time_is_up_the_record_ends_before_the_bytes_go(bench: Bench) -> None:
    bench.done(create())
    accepted = bench.accepted(EXPIRE)
    assert (accepted.orphans, accepted.discards) == (("blob-u",), ())
    assert (recorded(bench).ended, recorded(bench).blob) == (bench.context.revision, "blob-u")
    assert bench.code(add_from(ref())) is Code.UPLOAD_UNKNOWN
    again = bench.accepted(EXPIRE)
    assert (dict(again.changes), again.orphans) == ({}, ())


def test_the_expiry_of_an_upload_that_was_taken_touches_nothing(bench: Bench) -> None:
    bench.done(create())
    bench.done(add_from(ref()))
    late = bench.accepted(EXPIRE)
    assert (dict(late.changes), late.orphans) == ({}, ())


def test_clearing_a_store_leaves_its_uploads_alone(bench: Bench) -> None:
    bench.done(add("a", "h"))
    bench.done(create())
    bench.done(Clear(Attempt("a"), store_name=STORE))
    assert bench.done(add_from(ref()))["size"] == CONTENT.size


def test_a_store_has_room_for_so_many_pending_uploads(bench: Bench) -> None:
    bench.context = replace(bench.context, most_uploads=2)
    bench.done(create("u"))
    bench.done(create("v"))
    assert bench.code(create("w")) is Code.TOO_MANY_REQUESTS
    bench.done(create("w", store="other"))
    bench.done(add_from(ref("u")))
    bench.done(create("w"))


def test_uploads_in_flight_count_and_a_refusal_waits_for_them(bench: Bench) -> None:
    bench.done(create("u"))
    view, context = bench.view, replace(bench.context, most_uploads=2)
    stage(view, create("v"), context, 3)
    refused = decide(view, create("w"), context)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.depends) == (Code.TOO_MANY_REQUESTS, 3)
    stage(view, add_from(ref("u")), context, 4)
    stage(view, create("w"), context, 5)


def test_a_retry_gets_the_first_answer_for_ten_minutes_whatever_became_of_the_upload(bench: Bench) -> None:
    bench.done(create("u", key="k"))
    again = create("another", key="k", attempt=2)
    for _ in range(2):
        answer = bench.accepted(again).answer
        assert (answer.body, answer.created, answer.replayed) == ({"upload": "u"}, True, True)
        bench.accepted(EXPIRE)
    assert bench.state.get(upload_key(STORE, "another")) is None
    other = replace(again, blob=replace(again.blob, size=99))
    assert bench.code(other) is Code.IDEMPOTENCY_MISMATCH


def test_a_retry_is_one_request_whether_its_bytes_come_by_body_or_by_reference(bench: Bench) -> None:
    bench.done(create("u"))
    first = bench.done(add_from(ref(), key="k"))
    by_body = Add(Attempt("a", "k", 2), STORE, "h", None, replace(CONTENT, key="blob-body"), {})
    assert bench.accepted(by_body).answer.body == first
    by_reference = add_from(UploadRef("u"), key="k", attempt=3)
    assert bench.accepted(by_reference).answer.body == first


def test_a_retry_whose_answer_may_be_forgotten_is_not_told_that_it_was_not_applied(bench: Bench) -> None:
    bench.done(create("u"))
    bench.done(add_from(ref(), key="k"))
    evicted_answers_at = structs.replace(
        bench.handle("h"), answered=(), evicted_answers_at=bench.context.revision, gone=True
    )
    bench.put(f"stores/{STORE}/handles/h", evicted_answers_at)
    refused = bench.refused(add_from(ref(), key="k", attempt=2))
    assert (refused.code, refused.outcome) == (Code.UPLOAD_UNKNOWN, Outcome.UNKNOWN)


def test_an_ended_record_is_dropped_once_its_answer_is_too_old(bench: Bench) -> None:
    scrub = Scrub(LEADER, store_name=STORE, keys=(upload_key(STORE, "u"), upload_key(STORE, "v")))
    bench.done(create("u", key="k"))
    bench.done(create("v"))
    bench.done(add_from(ref("u")))
    assert not bench.accepted(scrub).changes
    bench.forget_keys()
    assert list(bench.accepted(scrub).changes) == [upload_key(STORE, "u")]
    bench.done(add_from(ref("v"), name="other"))


def test_a_damaged_record_is_reported_and_counts_for_nothing(bench: Bench) -> None:
    bench.done(create("u"))
    bench.put(upload_key(STORE, "u"), Corrupt("u", "not JSON"))
    assert bench.code(add_from(ref())) is Code.CORRUPT
    assert not bench.accepted(EXPIRE).changes
    assert bench.state.count_uploads(STORE) == 0


def test_a_first_upload_founds_the_store(bench: Bench) -> None:
    bench.done(create(store="new"))
    assert list(bench.state.stores()) == ["new"]
    assert list(bench.state.names("new")) == []
