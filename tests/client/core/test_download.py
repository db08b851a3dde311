"""Reading a state: verified, resumed where it was cut, never given out whole when it is damaged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from milepost.core.calls.outages import hindrance
from milepost.core.download import MAX_RESUMPTIONS, download
from milepost.core.effects import Answer, Lost, Send
from milepost.errors import (
    BlobMissing,
    ConnectionFailed,
    Corrupt,
    NotExist,
    StateTruncated,
    Unavailable,
    VersionMismatch,
)
from milepost.wire import Code, digest_header
from tests.client.core.world import CUT, NO_LEADER, World, problem, to_leader

STATE = b"0123456789"
HANDLE = "/v1/stores/s/handles/h"


def whole(*chunks: bytes | Lost, state: bytes = STATE, version: str = "v1") -> Answer:
    headers = {
        "etag": f'"{version}"',
        "repr-digest": digest_header(hashlib.sha256(state).hexdigest()),
        "content-length": str(len(state)),
    }
    return Answer(200, {"milepost-term": "3", **headers}, stream=list(chunks))


def rest(*chunks: bytes | Lost, said: str = "bytes {}-9/10") -> Callable[[Send], Answer]:
    def answer(send: Send) -> Answer:
        start = send.headers["Range"].removeprefix("bytes=").removesuffix("-")
        return Answer(
            206, {"milepost-term": "3", "etag": '"v1"', "content-range": said.format(start)}, stream=list(chunks)
        )

    return answer


def read(world: World, version: str | None = None) -> bytes:
    world.run(download(world.caller, f"{HANDLE}/state", version, record=HANDLE))
    return b"".join(world.emitted)


def test_bytes_that_a_proxy_encoded_are_no_damage() -> None:
    """They do not match the digest, though nothing is wrong with what is stored."""
    plain = whole(b"zipped!zip")
    zipped = Answer(200, {**plain.headers, "content-encoding": "gzip"}, stream=plain.stream)
    assert read(World(zipped, whole(STATE))) == STATE
    with pytest.raises(Unavailable):
        read(World(*[zipped] * 1000))


def test_a_state_is_read_and_verified() -> None:
    world = World(whole(b"01234", b"56789"))
    assert read(world) == STATE
    assert world.emitted == [b"", b"01234", b"56789"]
    assert world.sent[0].stream
    assert "If-Match" not in world.sent[0].headers


def test_an_empty_state_is_a_state() -> None:
    assert read(World(whole(state=b""))) == b""


def test_a_version_asked_for_is_a_condition() -> None:
    world = World(problem(Code.VERSION_MISMATCH, current="v2"))
    with pytest.raises(VersionMismatch) as raised:
        read(world, "v1")
    assert raised.value.current == "v2"
    assert world.header("If-Match") == ['"v1"']


@pytest.mark.parametrize(
    ("code", "error"),
    [(Code.NOT_EXIST, NotExist), (Code.BLOB_MISSING, BlobMissing), (Code.CORRUPT, Corrupt)],
)
def test_what_is_refused_at_the_start_is_raised_as_it_is(code: Code, error: type[Exception]) -> None:
    world = World(problem(code))
    with pytest.raises(error):
        read(world)
    assert world.emitted == []


@pytest.mark.parametrize("cut", [CUT, b""])
def test_a_cut_connection_is_gone_on_with_at_the_same_byte_of_the_same_version(cut: Lost | bytes) -> None:
    world = World(to_leader("http://l"), whole(b"012", cut), NO_LEADER, rest(b"345", CUT), rest(b"6789"))
    assert read(world) == STATE
    assert world.header("Range") == [None, None, "bytes=3-", "bytes=3-", "bytes=6-"]
    assert world.header("If-Match")[2:] == ['"v1"'] * 3


def test_a_cut_after_the_last_byte_does_not_matter() -> None:
    world = World(whole(STATE, CUT))
    assert read(world) == STATE


def test_a_connection_that_is_cut_again_and_again_ends_it() -> None:
    world = World(whole(b"012", CUT), *[rest(CUT)] * 20)
    with pytest.raises(StateTruncated, match="3 of 10") as raised:
        read(world)
    assert len(world.sent) == 1 + MAX_RESUMPTIONS
    assert isinstance(hindrance(raised.value), ConnectionFailed)


def test_cuts_do_not_matter_while_bytes_come() -> None:
    world = World(whole(b"0", CUT), *[rest(b"%d" % n, CUT) for n in range(1, 10)])
    assert read(world) == STATE


@pytest.mark.parametrize(
    "then",
    [
        problem(Code.VERSION_MISMATCH),
        problem(Code.NOT_EXIST),
        problem(Code.CORRUPT),
        rest(b"3456789", said="bytes 0-9/10"),
        rest(b"3456789", said="bytes {}-9/11"),
        whole(STATE),
    ],
)
def test_a_rest_that_is_not_to_be_had_truncates_it(then: Answer | Callable[[Send], Answer]) -> None:
    world = World(whole(b"012", CUT), *[then] * 1000)
    with pytest.raises(StateTruncated, match="after 3 of 10 bytes"):
        read(world)


def test_an_outage_in_the_middle_truncates_it_and_stays_the_cause() -> None:
    world = World(whole(b"012", CUT), *[NO_LEADER] * 1000)
    with pytest.raises(StateTruncated) as raised:
        read(world)
    assert isinstance(raised.value.__cause__, Unavailable)


@pytest.mark.parametrize("chunks", [(b"01234", b"5678X"), (b"X",) * 10])
def test_bytes_that_do_not_match_are_never_given_out_whole(chunks: tuple[bytes, ...]) -> None:
    world = World(whole(*chunks))
    with pytest.raises(StateTruncated, match="digest") as raised:
        read(world)
    assert hindrance(raised.value) is None
    assert sum(map(len, world.emitted)) < len(STATE)


def test_more_bytes_than_announced_are_no_state() -> None:
    with pytest.raises(StateTruncated, match="10 bytes, but 11 or more"):
        read(World(whole(STATE, b"!")))


@pytest.mark.parametrize("missing", ["etag", "repr-digest", "content-length"])
def test_an_answer_that_cannot_be_verified_is_not_read(missing: str) -> None:
    answer = whole(STATE)
    headers = {name: value for name, value in answer.headers.items() if name != missing}
    with pytest.raises(Unavailable):
        read(World(*[Answer(200, headers, stream=[STATE])] * 1000))
