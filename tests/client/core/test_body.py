"""Where bytes come from: what can be sent again, what is known of it before, and what happens when it changes."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from milepost.core.body import SMALL, Body, SourceFailed, body_of
from milepost.errors import DigestMismatch

STATE = bytes(range(256)) * 200


def taken(body: Body) -> bytes:
    content = body.begin()
    if isinstance(content, bytes):
        return content
    assert isinstance(content, Iterator)
    return b"".join(content)


def test_whatever_can_be_read_twice_is_known_before_and_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(STATE)
    with path.open("rb") as file:
        sources: list[object] = [STATE, bytearray(STATE), memoryview(STATE), path, file, [STATE[:7], STATE[7:]]]
        for source in sources:
            body = body_of(source)
            assert (body.size, body.sha256) == (len(STATE), hashlib.sha256(STATE).hexdigest())
            assert taken(body) == taken(body) == STATE
            assert not body.spent


def test_a_large_state_in_memory_is_sent_in_pieces() -> None:
    state = STATE * 2
    assert len(state) > SMALL
    body = body_of(state)
    assert not body.small
    assert taken(body) == taken(body) == state


def test_a_file_is_sent_from_where_it_stands() -> None:
    file = io.BytesIO(b"skipped" + STATE)
    file.seek(7)
    body = body_of(file)
    assert body.size == len(STATE)
    assert taken(body) == taken(body) == STATE


def test_later_changes_of_a_bytearray_do_not_reach_the_request() -> None:
    state = bytearray(b"before")
    body = body_of(state)
    state[:] = b"after!"
    assert taken(body) == b"before"


def test_a_generator_is_sent_once_and_spent_with_its_first_byte() -> None:
    body = body_of(chunk for chunk in (b"a", b"b"))
    assert (body.size, body.sha256, body.once) == (None, None, True)
    begun = body.begin()
    assert not body.spent
    assert isinstance(begun, Iterator)
    assert next(begun) == b"a"
    assert body.spent


def test_a_pipe_is_sent_once() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"state")
    os.close(writing)
    with open(reading, "rb") as pipe:
        body = body_of(pipe)
        assert body.once
        assert taken(body) == b"state"


def test_an_asynchronous_source_is_sent_once() -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"state"

    body = body_of(source())
    assert body.once
    assert isinstance(body.begin(), AsyncIterator)


@pytest.mark.parametrize("state", ["text", 7, None])
def test_what_is_no_state_is_refused(state: object) -> None:
    with pytest.raises(TypeError, match="a state is bytes"):
        body_of(state)


def test_text_in_pieces_is_refused_when_it_is_read() -> None:
    with pytest.raises(TypeError, match="gave str"):
        body_of(["text"])
    with pytest.raises(TypeError, match="gave str"):
        body_of(io.StringIO("text"))


def test_a_missing_file_is_the_callers_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        body_of(tmp_path / "missing")


@pytest.mark.parametrize("then", [b"shorter", b"longer than it was before"])
def test_a_file_that_changes_between_digest_and_sending_is_not_sent_whole(tmp_path: Path, then: bytes) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"what it was")
    body = body_of(path)
    path.write_bytes(then)
    with pytest.raises(SourceFailed) as raised:
        taken(body)
    assert isinstance(raised.value.error, DigestMismatch)


def test_an_error_of_the_source_is_kept() -> None:
    def source() -> Iterator[bytes]:
        yield b"a"
        raise ZeroDivisionError

    with pytest.raises(SourceFailed) as raised:
        taken(body_of(source()))
    assert isinstance(raised.value.error, ZeroDivisionError)
