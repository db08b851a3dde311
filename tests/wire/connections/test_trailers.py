"""What stands between and behind the bytes of a chunked body: bounded as heads are, and never taken for a header."""

from __future__ import annotations

import select

import pytest

from testbed.server import ServerProcess
from tests.wire.support import raw
from tests.wire.support.api import Api, problem
from tests.wire.support.damage import blob_files

MIB = 1024 * 1024


def chunked(api: Api, name: str, *rest: bytes, session: str | None = None) -> bytes:
    acting = {"Milepost-Session": str(session or api.session), "Transfer-Encoding": "chunked"}
    return raw.head("POST", f"/v1/stores/{api.store}/handles/{name}", acting) + b"".join(rest)


PARTS = {
    "many trailers": (b"3\r\nabc\r\n0\r\n", b"X-Trailer: v\r\n" * 1000),
    "one trailer": (b"3\r\nabc\r\n0\r\nX-Trailer: ", b"v" * 16_000),
    "a trailer's name": (b"3\r\nabc\r\n0\r\n", b"x" * 16_000),
    "an extension": (b"3\r\nabc\r\n3;e=", b"v" * 16_000),
    "extensions": (b"3;a=1\r\nabc\r\n3", b";name=value" * 1500),
    "extensions of the last chunk": (b"3\r\nabc\r\n0", b";name=value" * 1500),
}


@pytest.mark.parametrize(("begin", "filling"), PARTS.values(), ids=PARTS)
def test_what_is_neither_head_nor_body_is_bounded(
    api: Api, server: ServerProcess, begin: bytes, filling: bytes
) -> None:
    known, sent = blob_files(server), 0
    with raw.connected(server.url) as connection:
        connection.sendall(chunked(api, "a", begin))
        while not select.select([connection], [], [], 0)[0]:
            assert sent < 16 * MIB, "it is read without end"
            connection.sendall(filling)
            sent += len(filling)
        problem(raw.answer(connection), 413, "too-large")
    assert api.exists("a").status_code == 404
    server.wait_until(lambda: blob_files(server) == known, "something lies among the blobs")


def test_it_costs_no_memory(api: Api, server: ServerProcess) -> None:
    """Without a session and behind the answer as well: there nobody asked for the body."""
    server.forget_peak()
    before = server.memory("VmHWM")
    for session in ("", "nobody"):
        with raw.connected(server.url) as connection:
            connection.settimeout(30)
            try:
                connection.sendall(chunked(api, "a", b"0\r\n", session=session))
                for _ in range(64):
                    connection.sendall(b"X-Trailer: v\r\n" * 75_000)
            except (BrokenPipeError, ConnectionResetError, TimeoutError):
                pass
    assert server.memory("VmHWM") - before < 32 * MIB
    assert api.exists("a").status_code == 404


@pytest.mark.parametrize("apart", [False, True], ids=["in one piece", "in pieces"])
def test_a_trailer_is_no_header(api: Api, server: ServerProcess, apart: bool) -> None:
    other = api.other()
    trailers = {
        "Milepost-Session": str(other.session),
        "Idempotency-Key": "of-a-trailer",
        "Milepost-Label-from": "a trailer",
        "X-Request-Id": "of-a-trailer",
        "Host": "evil.example",
        "Expect": "100-continue",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in trailers.items()).encode()
    pieces = [chunked(api, "a"), b"5\r\nhello\r\n", b"0\r\n", lines, b"\r\n", raw.head("GET", "/livez")]
    with raw.connected(server.url) as connection:
        for piece in pieces if apart else [b"".join(pieces)]:
            connection.sendall(piece)
        added, alive = raw.answers(connection, "POST", "GET")
    assert alive.status_code == 200
    assert added.status_code == 201, added.text
    assert added.json()["locks"] == [api.session]
    assert added.json()["labels"] == {}
    assert added.headers["x-request-id"] != "of-a-trailer"
    assert api.state("a").content == b"hello"


@pytest.mark.parametrize(
    "trailer", ["Content-Length: 7", "Transfer-Encoding: gzip", "Connection: close", "Upgrade: h2c"]
)
def test_a_trailer_that_would_change_the_framing_is_no_http(api: Api, server: ServerProcess, trailer: str) -> None:
    request = chunked(api, "a", b"5\r\nhello\r\n0\r\n", trailer.encode(), b"\r\n\r\n")
    problem(raw.ask(server.url, request), 422, "invalid-request")
    assert api.exists("a").status_code == 404


def test_small_chunks_with_their_sizes_are_a_body_like_any_other(api: Api, server: ServerProcess) -> None:
    body = b"1;note=short\r\nx\r\n" * 20_000 + b"0\r\nX-Trailer: v\r\n\r\n"
    assert raw.ask(server.url, chunked(api, "a", body)).status_code == 201
    assert api.state("a").content == b"x" * 20_000
