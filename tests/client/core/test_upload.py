"""Writing a state by way of the blob store: what is sent where, and what else is tried. Scripted answers."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.core.direct import ATTEMPT_TIMEOUT, AVOID_BRIEFLY_SECONDS, AVOID_SECONDS
from milepost.core.effects import Answer, Lost, Send
from milepost.core.lease import Lease
from milepost.core.store import StoreOperations
from milepost.core.store_calls import SessionContext
from milepost.core.upload import TRIES_PER_URL, URLS
from milepost.errors import (
    AlreadyExists,
    ConnectionFailed,
    DigestMismatch,
    Fenced,
    InvalidRequest,
    MilepostError,
    OutcomeUnknown,
    Problem,
    SessionExpired,
    TooLarge,
    Unavailable,
    VersionMismatch,
)
from milepost.types import Handle
from milepost.wire import Code, Outcome
from tests.client.core.world import BROKEN, CUT, NO_LEADER, RECORD, REFUSED, SILENT, A, Reaction, World, answer, problem

STATE = b"0123456789abcdef"
SHA256 = hashlib.sha256(STATE).hexdigest()
URL = "http://s3:9000/bucket/key?X-Amz-Signature=very-secret"
SIGNED = {"Content-Length": "16", "If-None-Match": "*", "x-amz-checksum-sha256": "digest"}
DONE = answer({**RECORD, "name": "h"}, status=201, etag='"abc.7"')
STORED = Answer(200, {})
EXPIRED = Answer(403, {})
BUSY = Answer(503, {})
NO_CONNECTION = Lost("no connection in time", sent=False, unreachable=True)
NONE_FREE = Lost("none of the client's own connections was free in time", sent=False)


def announced(number: int = 1, url: str = URL, expires_in: float = 900.0) -> Answer:
    document = {"upload": f"u{number}", "method": "PUT", "url": url, "headers": SIGNED, "expires_in": expires_in}
    return answer(document, status=201)


def direct(*script: Reaction | tuple[float, Reaction], above: int | None = 10, timeout: float = 30.0) -> World:
    world = World(*script, addresses=[A])
    world.caller = world.make_caller(token="token", direct_above=above, timeout=timeout)
    return world


def store(world: World) -> StoreOperations:
    return StoreOperations(world.caller, "s", SessionContext(Lease("s1", 10_000.0, world.now, lambda: world.now)), 3)


def add(world: World, state: Any = STATE, timeout: float | None = None) -> Handle:
    return world.run(store(world).add_and_lock("h", state, {"batch": "7"}, timeout))


def lines(world: World) -> list[str]:
    """What was sent, in short: ``announce``, ``put``, ``name`` (by reference), or ``bytes`` (through the service)."""

    def line(send: Send) -> str:
        if send.signed:
            return "put"
        if send.url.endswith("/uploads"):
            return "announce"
        return "name" if "upload" in send.headers.get("Content-Type", "") else "bytes"

    return [line(send) for send in world.sent]


def test_the_bytes_are_put_by_the_signed_url_and_then_named() -> None:
    world = direct(announced(), STORED, DONE)
    assert add(world).version == "abc.7"
    announce, put, name = world.sent
    assert (announce.method, announce.url) == ("POST", A + "/v1/stores/s/uploads")
    assert json.loads(world.bodies[0] or b"") == {"size": 16, "sha256": SHA256}
    assert announce.headers["Milepost-Session"] == "s1"
    assert (put.method, put.url, put.headers, world.bodies[1]) == ("PUT", URL, SIGNED, STATE)
    assert (name.method, name.url) == ("POST", A + "/v1/stores/s/handles/h")
    assert json.loads(world.bodies[2] or b"") == {"upload": "u1", "size": 16, "sha256": SHA256}
    expected = {
        "Content-Type": "application/vnd.milepost.upload+json",
        "Milepost-Session": "s1",
        "Milepost-Epoch": "3",
        "Milepost-Label-batch": "7",
        "Milepost-Attempt": "1",
        "Authorization": "Bearer token",
    }
    assert {header: name.headers.get(header) for header in expected} == expected
    assert announce.headers["Idempotency-Key"] != name.headers["Idempotency-Key"]


def test_replace_names_it_on_condition_of_the_version() -> None:
    world = direct(announced(), STORED, replace(DONE, status=200))
    world.run(store(world).replace("h", "abc.6", STATE, None, None))
    assert lines(world) == ["announce", "put", "name"]
    assert (world.sent[2].method, world.sent[2].headers["If-Match"]) == ("PUT", '"abc.6"')


@pytest.mark.parametrize(("state", "above"), [(STATE, 16), (STATE, None), (b"", 0)])
def test_what_is_not_above_the_threshold_goes_through_the_service(state: bytes, above: int | None) -> None:
    world = direct(DONE, above=above)
    add(world, state)
    assert lines(world) == ["bytes"]


def test_what_can_be_read_only_once_goes_through_the_service() -> None:
    world = direct(answer({}), DONE)
    add(world, iter([STATE]))
    assert [send.method for send in world.sent] == ["HEAD", "POST"]


@pytest.mark.parametrize("code", [Code.NOT_SUPPORTED, Code.NO_ROUTE])
def test_that_a_service_does_not_sign_is_remembered_for_a_while(code: Code) -> None:
    world = direct(problem(code), DONE, DONE)
    add(world)
    add(world)
    assert lines(world) == ["announce", "bytes", "bytes"]
    world.now += AVOID_SECONDS
    world.script = [announced(), STORED, DONE]
    add(world)
    assert lines(world)[3:] == ["announce", "put", "name"]


@pytest.mark.parametrize("trouble", [BUSY, CUT, BROKEN, Answer(500, {}), Answer(409, {}), Answer(429, {})])
def test_a_put_that_may_do_later_is_tried_again_after_a_rest(trouble: Answer | Lost) -> None:
    world = direct(announced(), trouble, trouble, STORED, DONE)
    add(world)
    assert lines(world) == ["announce", "put", "put", "put", "name"]
    assert len(world.slept) == 2
    assert world.bodies[3] == STATE
    assert world.caller.direct.open


def test_bytes_that_an_earlier_try_put_are_there() -> None:
    world = direct(announced(), CUT, Answer(412, {}), DONE)
    add(world)
    assert lines(world) == ["announce", "put", "put", "name"]


def test_a_url_that_expired_is_left_for_a_new_one() -> None:
    world = direct(announced(1), EXPIRED, announced(2), STORED, DONE)
    add(world)
    assert lines(world) == ["announce", "put", "announce", "put", "name"]
    assert json.loads(world.bodies[-1] or b"")["upload"] == "u2"
    world = direct(announced(1, expires_in=3.0), (4.0, BUSY), announced(2), STORED, DONE)
    add(world)
    assert lines(world) == ["announce", "put", "announce", "put", "name"]
    keys = [send.headers["Idempotency-Key"] for send in world.sent if not send.signed]
    assert len(set(keys)) == 3


def test_urls_that_expire_one_after_the_other_are_left_in_the_end() -> None:
    expiring: list[Reaction | tuple[float, Reaction]] = [announced(expires_in=3.0), (4.0, BUSY)]
    world = direct(*expiring * URLS, DONE)
    add(world)
    assert lines(world) == ["announce", "put"] * URLS + ["bytes"]


@pytest.mark.parametrize("trouble", [BUSY, CUT, BROKEN])
def test_a_blob_store_that_does_not_do_now_is_left_to_the_service_for_this_time(
    trouble: Answer | Lost, caplog: pytest.LogCaptureFixture
) -> None:
    world = direct(announced(), *[trouble] * TRIES_PER_URL, DONE, announced(), STORED, DONE)
    add(world)
    add(world)
    assert lines(world) == ["announce", *["put"] * TRIES_PER_URL, "bytes", "announce", "put", "name"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("trouble", [REFUSED, SILENT, Answer(404, {}), Answer(301, {}), Answer(501, {})])
def test_a_way_that_is_closed_is_logged_once_and_not_tried_again(
    trouble: Answer | Lost, caplog: pytest.LogCaptureFixture
) -> None:
    world = direct(announced(), trouble, DONE, DONE)
    add(world)
    add(world)
    assert lines(world) == ["announce", "put", "bytes", "bytes"]
    assert world.bodies[2:] == [STATE] * 2
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "through the service" in record.getMessage()
    assert "very-secret" not in caplog.text


def test_a_blob_store_that_refuses_what_is_signed_anew_is_left_alone() -> None:
    world = direct(announced(), EXPIRED, announced(), EXPIRED, DONE, DONE)
    add(world)
    add(world)
    assert lines(world) == ["announce", "put", "announce", "put", "bytes", "bytes"]


@pytest.mark.parametrize("url", ["ftp://s3/key?very-secret", "http://me:pw@s3/key?very-secret", "http://[very-secret"])
def test_a_url_that_cannot_be_used_is_not_quoted(url: str, caplog: pytest.LogCaptureFixture) -> None:
    world = direct(announced(url=url), DONE)
    add(world)
    assert lines(world) == ["announce", "bytes"]
    assert "no http or https URL" in caplog.text
    assert "very-secret" not in caplog.text


def test_https_is_not_left_for_http() -> None:
    world = World(announced(), DONE, addresses=["https://a:1"])
    world.caller = world.make_caller(direct_above=10)
    add(world)
    assert lines(world) == ["announce", "bytes"]


def test_an_upload_that_expired_before_it_was_named_is_done_again_under_the_same_key() -> None:
    gone = problem(Code.UPLOAD_UNKNOWN)
    world = direct(announced(1), STORED, CUT, gone, announced(2), STORED, DONE)
    add(world)
    assert lines(world) == ["announce", "put", "name", "name", "announce", "put", "name"]
    names = [send for send in world.sent if "Milepost-Label-batch" in send.headers]
    assert len({send.headers["Idempotency-Key"] for send in names}) == 1
    assert [send.headers["Milepost-Attempt"] for send in names] == ["1", "2", "3"]


def test_bytes_whose_upload_expires_again_go_through_the_service_under_the_same_key() -> None:
    gone = problem(Code.UPLOAD_UNKNOWN)
    world = direct(announced(1), STORED, gone, announced(2), STORED, gone, DONE)
    add(world)
    assert lines(world)[-2:] == ["name", "bytes"]
    first, second, third = (send for send in world.sent if "Milepost-Label-batch" in send.headers)
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"] == third.headers["Idempotency-Key"]
    assert third.headers["Milepost-Attempt"] == "3"


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (problem(Code.ALREADY_EXISTS), AlreadyExists),
        (problem(Code.VERSION_MISMATCH, current="v9"), VersionMismatch),
        (problem(Code.FENCED, current=9), Fenced),
        (problem(Code.DIGEST_MISMATCH), DigestMismatch),
        (problem(Code.SESSION_EXPIRED), SessionExpired),
    ],
)
def test_what_the_service_refuses_is_raised_as_for_bytes(refusal: Answer, error: type[Problem]) -> None:
    world = direct(announced(), STORED, refusal)
    with pytest.raises(error):
        add(world)
    assert lines(world) == ["announce", "put", "name"]


@pytest.mark.parametrize(
    ("code", "error"),
    [(Code.TOO_LARGE, TooLarge), (Code.SESSION_EXPIRED, SessionExpired), (Code.INVALID_REQUEST, InvalidRequest)],
)
def test_what_is_refused_before_the_bytes_set_out_is_raised_at_once(code: Code, error: type[Problem]) -> None:
    world = direct(problem(code))
    with pytest.raises(error):
        add(world)
    assert lines(world) == ["announce"]


def test_a_name_whose_answer_is_lost_may_have_been_applied() -> None:
    world = direct(announced(), STORED, CUT, *[NO_LEADER] * 1000)
    with pytest.raises(OutcomeUnknown):
        add(world, timeout=5.0)
    assert world.now <= 1005.0


def test_uploads_that_cannot_be_had_leave_time_for_the_service_and_are_not_in_doubt() -> None:
    world = direct(*[lambda send: CUT if send.url.endswith("/uploads") else NO_LEADER] * 1000)
    with pytest.raises(Unavailable):
        add(world, timeout=10.0)
    assert lines(world)[0] == "announce"
    assert lines(world)[-1] == "bytes"
    assert world.now <= 1010.0


@pytest.mark.parametrize("trouble", [SILENT, NO_CONNECTION, NONE_FREE])
def test_a_put_cut_short_by_the_callers_own_deadline_leaves_time_and_proves_nothing(trouble: Lost) -> None:
    world = direct(announced(), (100.0, trouble), DONE, announced(), STORED, DONE)
    add(world, timeout=3.0)
    assert lines(world) == ["announce", "put", "bytes"]
    assert world.now < 1003.0
    add(world, timeout=3.0)
    assert lines(world)[3:] == ["announce", "put", "name"]


def test_a_put_that_is_not_answered_leaves_nothing_in_doubt() -> None:
    world = direct(announced(), (100.0, SILENT), *[REFUSED] * 100)
    with pytest.raises(ConnectionFailed):
        add(world, timeout=5.0)
    assert set(lines(world)) == {"announce", "put", "bytes"}
    assert world.now <= 1005.0


def test_a_blob_store_that_is_silent_for_a_good_while_is_left_alone_for_a_while() -> None:
    world = direct(announced(), (100.0, SILENT), DONE, DONE, above=10)
    add(world, b"x" * 30 * 1024 * 1024, timeout=30.0)  # at the least speed that is waited for, it takes longer
    add(world)
    assert lines(world) == ["announce", "put", "bytes", "bytes"]
    assert world.sent[1].timeout > ATTEMPT_TIMEOUT
    world.now += AVOID_BRIEFLY_SECONDS
    world.script = [announced(), STORED, DONE]
    add(world)
    assert lines(world)[4:] == ["announce", "put", "name"]


def test_there_is_nobody_for_a_short_deadline_either() -> None:
    world = direct(announced(), REFUSED, DONE, DONE)
    add(world, timeout=1.0)
    add(world, timeout=1.0)
    assert lines(world) == ["announce", "put", "bytes", "bytes"]


@pytest.mark.parametrize("code", [Code.TOO_MANY_REQUESTS, Code.STORAGE_UNAVAILABLE])
def test_an_announcement_that_is_refused_for_now_costs_no_time_and_is_remembered_for_a_while(code: Code) -> None:
    world = direct(problem(code, retry_after=1.0), DONE, DONE)
    add(world)
    add(world)
    assert lines(world) == ["announce", "bytes", "bytes"]
    assert world.now == 1000.0
    assert world.caller.direct.open  # for what is to be read
    world.now += AVOID_BRIEFLY_SECONDS
    world.script = [announced(), STORED, DONE]
    add(world)
    assert lines(world)[3:] == ["announce", "put", "name"]


def test_an_announcement_that_is_refused_after_one_whose_answer_was_lost_is_the_same() -> None:
    world = direct(CUT, problem(Code.STORAGE_UNAVAILABLE), DONE, DONE)
    add(world)
    add(world)
    assert lines(world) == ["announce", "announce", "bytes", "bytes"]


@pytest.mark.parametrize("timeout", [4.0, 120.0])
def test_an_announcement_that_finds_nobody_costs_a_small_share_of_the_time(timeout: float) -> None:
    world = direct(*[lambda send: NO_LEADER if send.url.endswith("/uploads") else DONE] * 1000)
    add(world, timeout=timeout)
    assert world.now - 1000.0 <= min(5.0, timeout / 4)
    world.script = [announced(), STORED, DONE]
    add(world)
    assert lines(world)[-3:] == ["announce", "put", "name"]


def test_a_state_that_is_too_large_for_one_put_closes_the_way_for_no_smaller_one() -> None:
    world = direct(problem(Code.NOT_SUPPORTED), DONE, announced(), STORED, DONE, DONE)
    add(world, STATE * 2)
    add(world)
    add(world, STATE * 2)
    assert lines(world) == ["announce", "bytes", "announce", "put", "name", "bytes"]
    assert world.caller.direct.open


def test_a_source_that_changes_or_breaks_is_the_callers_own_error(tmp_path: Any) -> None:
    path = tmp_path / "state"
    path.write_bytes(STATE)

    def shrinks(_: Send) -> Answer:
        path.write_bytes(STATE[1:])
        return announced()

    world = direct(shrinks, STORED)
    with pytest.raises(DigestMismatch):
        world.run(store(world).add_and_lock("h", path, None, None))


def test_a_threshold_is_a_number_of_bytes() -> None:
    with pytest.raises(ValueError, match="direct_above"):
        World().make_caller(direct_above=-1)


# Whatever happens


class Model:
    """A service and a blob store that do what they are asked, and lose requests and answers as a test wants it."""

    def __init__(self, world: World, troubles: list[str]) -> None:
        self.world = world
        self.troubles = troubles
        self.put: set[str] = set()
        self.applied: list[str] = []

    def __call__(self, send: Send) -> Answer | Lost:
        trouble = self.troubles.pop(0) if self.troubles else "none"
        self.world.now += 0.01
        if trouble == "lost":
            return CUT
        if trouble == "refused":
            return REFUSED
        if trouble == "broken":
            return BROKEN
        if trouble == "busy":
            return BUSY if send.signed else problem(Code.STORAGE_UNAVAILABLE)
        if trouble == "expired":
            self.put.clear()
        done = self._done(send)
        if trouble == "silent":
            self.world.now += send.timeout
            return SILENT
        return CUT if trouble == "answer lost" else done

    def _done(self, send: Send) -> Answer:
        if send.signed:
            assert send.body is not None
            known = send.url in self.put
            self.put.add(send.url)
            return Answer(412, {}) if known else STORED
        if send.url.endswith("/uploads"):
            return announced(url=f"http://s3/{send.headers['Idempotency-Key']}?X-Amz-Signature=very-secret")
        key = send.headers["Idempotency-Key"]
        if key in self.applied:
            return Answer(201, {**DONE.headers, "milepost-replayed": "true"}, DONE.body)
        if "upload" in send.headers["Content-Type"] and not self.put:
            return problem(Code.UPLOAD_UNKNOWN)
        self.applied.append(key)
        return DONE


TROUBLES = ["none", "none", "lost", "answer lost", "busy", "silent", "refused", "broken", "expired"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(TROUBLES), max_size=14), st.floats(1.0, 40.0))
def test_whatever_happens_it_is_applied_once_or_reported_truly(troubles: list[str], timeout: float) -> None:
    world = direct()
    model: Callable[[Send], Answer | Lost] = Model(world, list(troubles))
    assert isinstance(model, Model)
    world.script = [model] * 1000
    error: MilepostError | None = None
    try:
        add(world, timeout=timeout)
    except MilepostError as raised:
        error = raised
    assert len(model.applied) <= 1
    assert world.now <= 1000.0 + timeout + 0.5
    if error is None:
        assert len(model.applied) == 1
    elif not isinstance(error, OutcomeUnknown):
        assert model.applied == []
        assert not isinstance(error, Problem) or error.outcome is Outcome.NOT_APPLIED
    changing: list[Mapping[str, str]] = [send.headers for send in world.sent if "Milepost-Label-batch" in send.headers]
    assert len({headers["Idempotency-Key"] for headers in changing}) <= 1
    attempts = [int(headers["Milepost-Attempt"]) for headers in changing]
    assert attempts == sorted(attempts)
