"""Reading a state from the blob store: when, what is verified, and what is done when it is not to be had there."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable

import pytest

from milepost.core.calls.outages import hindrance
from milepost.core.direct import AVOID_SECONDS
from milepost.core.download import download
from milepost.core.effects import Answer, Lost, Send
from milepost.errors import BlobMissing, ConnectionFailed, NotExist, StateTruncated, VersionMismatch
from milepost.wire import Code, digest_header
from tests.client.core.world import BROKEN, CUT, RECORD, REFUSED, SILENT, A, Reaction, World, answer, problem, to_leader

STATE = b"0123456789"
HANDLE = "/v1/stores/s/handles/h"
URL = "http://s3:9000/bucket/key?X-Amz-Signature=very-secret"
DIGEST = digest_header(hashlib.sha256(STATE).hexdigest())
LOCATED = answer(status=307, location=URL, etag='"v1"', repr_digest=DIGEST)


def large(*chunks: bytes | Lost) -> Answer:
    """The blob store's answer."""
    return Answer(200, {"content-length": str(len(STATE)), "etag": '"of the blob"'}, stream=list(chunks or (STATE,)))


def whole(*chunks: bytes | Lost) -> Answer:
    """The service's own answer."""
    return Answer(
        200,
        {**large().headers, "milepost-term": "3", "etag": '"v1"', "repr-digest": DIGEST},
        stream=list(chunks or (STATE,)),
    )


def rest(*chunks: bytes | Lost) -> Callable[[Send], Answer]:
    def reaction(send: Send) -> Answer:
        start = send.headers["Range"].removeprefix("bytes=").removesuffix("-")
        headers = {"content-range": f"bytes {start}-9/10"}
        return Answer(206, headers if send.signed else {"milepost-term": "3", **headers}, stream=list(chunks))

    return reaction


def record(size: int) -> Answer:
    return answer({**RECORD, "size": size})


def direct(*script: Reaction, signs: bool = True) -> World:
    world = World(*script, addresses=[A])
    world.caller = world.make_caller(token="token", direct_above=5)
    world.caller.direct.signs = signs
    return world


def read(world: World, version: str | None = None) -> bytes:
    world.emitted.clear()
    world.run(download(world.caller, f"{HANDLE}/state", version, record=HANDLE))
    return b"".join(world.emitted)


def targets(world: World) -> list[str]:
    return [send.url.removeprefix(A + HANDLE) or "record" for send in world.sent]


def test_a_large_state_comes_straight_from_the_blob_store() -> None:
    world = direct(record(10), LOCATED, large())
    assert read(world, "v1") == STATE
    assert targets(world) == ["record", "/state?redirect=true", URL]
    assert world.sent[1].headers["If-Match"] == '"v1"'
    assert (world.sent[2].headers, world.sent[2].signed, world.sent[2].stream) == ({}, True, True)


def test_a_small_one_comes_through_the_service() -> None:
    world = direct(record(5), whole())
    assert read(world) == STATE
    assert targets(world) == ["record", "/state"]


def test_whether_the_service_signs_is_learnt_from_the_first_state() -> None:
    world = direct(LOCATED, large(), record(5), whole(), signs=False)
    assert read(world) == read(world) == STATE
    assert targets(world) == ["/state?redirect=true", URL, "record", "/state"]
    world = direct(whole(), whole(), signs=False)
    assert read(world) == read(world) == STATE
    assert targets(world) == ["/state?redirect=true", "/state"]
    world.now += AVOID_SECONDS
    world.script = [LOCATED, large()]
    assert read(world) == STATE


def test_a_client_that_is_told_to_never_does() -> None:
    world = World(whole())
    assert read(world) == STATE
    assert targets(world) == ["/state"]


def test_a_redirect_to_the_leader_is_not_taken_for_one_to_the_bytes() -> None:
    world = direct(to_leader("http://leader"), LOCATED, large(), signs=False)
    assert read(world) == STATE
    assert world.sent[1].url == f"http://leader{HANDLE}/state?redirect=true"


@pytest.mark.parametrize(
    "trouble", [Answer(403, {}), Answer(404, {}), Answer(503, {}), Answer(200, {}, stream=[STATE])]
)
def test_what_the_blob_store_does_not_give_the_service_gives_or_explains(trouble: Answer) -> None:
    world = direct(record(10), LOCATED, trouble, whole())
    assert read(world) == STATE
    world = direct(record(10), LOCATED, trouble, problem(Code.BLOB_MISSING))
    with pytest.raises(BlobMissing):
        read(world)
    assert world.caller.direct.open


@pytest.mark.parametrize("trouble", [REFUSED, SILENT])
def test_a_blob_store_that_cannot_be_reached_is_logged_once_and_not_tried_again(
    trouble: Lost, caplog: pytest.LogCaptureFixture
) -> None:
    world = direct(record(10), LOCATED, trouble, whole(), whole())
    assert read(world) == read(world) == STATE
    assert targets(world)[3:] == ["/state", "/state"]
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert "very-secret" not in caplog.text


@pytest.mark.parametrize("trouble", [CUT, BROKEN])
def test_a_connection_that_was_closed_while_it_was_kept_is_made_anew(trouble: Lost) -> None:
    world = direct(record(10), LOCATED, trouble, large())
    assert read(world) == STATE
    assert targets(world)[2:] == [URL, URL]


def test_a_client_of_short_timeouts_does_not_take_its_own_haste_for_a_closed_way() -> None:
    world = direct(record(10), LOCATED, SILENT, whole(), record(10), LOCATED, large())
    world.caller.timeout = 1.0
    assert read(world) == read(world) == STATE
    assert targets(world)[2:] == [URL, "/state", "record", "/state?redirect=true", URL]


def test_a_cut_state_is_gone_on_with_at_the_blob_store_and_else_at_the_service() -> None:
    world = direct(record(10), LOCATED, large(b"01", CUT), rest(b"23", CUT), Answer(403, {}), rest(b"456789"))
    assert read(world) == STATE
    assert targets(world)[2:] == [URL, URL, URL, "/state"]
    assert world.header("Range")[3:] == ["bytes=2-", "bytes=4-", "bytes=4-"]
    assert world.header("If-Match")[3:] == [None, None, '"v1"']
    assert "Authorization" not in world.sent[4].headers


def test_a_rest_that_is_none_is_asked_of_the_service() -> None:
    world = direct(record(10), LOCATED, large(b"01", CUT), Answer(206, {}, stream=[STATE]), rest(b"23456789"))
    assert read(world) == STATE


@pytest.mark.parametrize("chunks", [(b"012345678X",), (b"01234", b"56789", b"!")])
def test_bytes_that_do_not_match_are_never_given_out_whole_and_are_asked_of_the_service_next(
    chunks: tuple[bytes, ...],
) -> None:
    """Whoever stands where the blob store should be says nothing of the state: a portal's page is no damage."""
    world = direct(record(10), LOCATED, large(*chunks), whole())
    with pytest.raises(StateTruncated) as raised:
        read(world)
    assert sum(map(len, world.emitted)) < len(STATE)
    assert isinstance(hindrance(raised.value), ConnectionFailed)
    assert read(world)[-len(STATE) :] == STATE
    assert targets(world)[-1] == "/state"


@pytest.mark.parametrize("signs", [True, False])
@pytest.mark.parametrize(("code", "error"), [(Code.NOT_EXIST, NotExist), (Code.VERSION_MISMATCH, VersionMismatch)])
def test_what_the_service_refuses_is_raised_as_it_is(signs: bool, code: Code, error: type[Exception]) -> None:
    world = direct(problem(code), signs=signs)
    with pytest.raises(error):
        read(world, "v1")


def test_a_url_that_cannot_be_used_is_not_quoted(caplog: pytest.LogCaptureFixture) -> None:
    located = Answer(307, {**LOCATED.headers, "location": "ftp://s3/key?very-secret"})
    world = direct(record(10), located, whole())
    assert read(world) == STATE
    assert "very-secret" not in caplog.text
