"""Bodies that end before their end, and requests that are none: an answer where somebody listens, nothing changed."""

from __future__ import annotations

import select
import socket
import struct
import time

import httpx
import pytest

from testbed.server import DEADLINE_SECONDS, ServerProcess
from tests.wire.support import raw
from tests.wire.support.api import Api, Json, problem
from tests.wire.support.damage import blob_files

SIZES = {"nothing": (0, 10), "a part": (4, 10), "most": (3_000_000, 3_000_001)}


@pytest.fixture
def there(api: Api, server: ServerProcess) -> tuple[Json, set[str]]:
    """What is there before: a handle ``there`` and its blob."""
    api.added("there", b"old")
    return api.everything(), blob_files(server)


def unchanged(api: Api, server: ServerProcess, there: tuple[Json, set[str]]) -> None:
    """Nothing has changed, and no blob or temporary file is left behind once the server has tidied up."""
    before, blobs = there
    assert api.everything() == before
    assert api.state("there").content == b"old"
    server.wait_until(lambda: blob_files(server) == blobs, "something lies among the blobs")


def put(api: Api, name: str, headers: dict[str, str]) -> bytes:
    version = api.get("there").json()["version"]
    method, match = ("PUT", {"If-Match": f'"{version}"'}) if name == "there" else ("POST", {})
    target = f"/v1/stores/{api.store}/handles/{name}"
    return raw.head(method, target, {"Milepost-Session": str(api.session), **match, **headers})


@pytest.mark.parametrize("name", ["new", "there"])
@pytest.mark.parametrize(("sent", "announced"), SIZES.values(), ids=SIZES)
def test_half_closed_inside_the_body(
    api: Api, server: ServerProcess, there: tuple[Json, set[str]], name: str, sent: int, announced: int
) -> None:
    request = put(api, name, {"Content-Length": str(announced)}) + b"x" * sent
    document = problem(raw.ask(server.url, request, half_close=True), 400, "incomplete-body")
    assert document["retryable"] is True
    unchanged(api, server, there)


@pytest.mark.parametrize("body", [b"", b"5\r\nhello\r\n", b"5\r\nhel", b"5\r\nhello\r\n0\r\n"])
def test_half_closed_inside_chunks(api: Api, server: ServerProcess, there: tuple[Json, set[str]], body: bytes) -> None:
    request = put(api, "new", {"Transfer-Encoding": "chunked"}) + body
    problem(raw.ask(server.url, request, half_close=True), 400, "incomplete-body")
    unchanged(api, server, there)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("name", ["new", "there"])
def test_gone_inside_the_body(
    api: Api, server: ServerProcess, there: tuple[Json, set[str]], name: str, reset: bool
) -> None:
    mark = f"gone-{api.store}"
    with raw.connected(server.url) as connection:
        connection.sendall(put(api, name, {"Content-Length": "3000000", "X-Request-Id": mark}) + b"x" * 2_500_000)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    server.wait_for_log(mark)
    unchanged(api, server, there)


def test_json_cut_short(api: Api, server: ServerProcess, there: tuple[Json, set[str]]) -> None:
    headers = {"Milepost-Session": str(api.session), "Content-Type": "application/json", "Content-Length": "100"}
    for target in ("/v1/sessions", f"/v1/stores/{api.store}/epoch"):
        request = raw.head("POST", target, headers) + b'{"ttl": 15}'
        problem(raw.ask(server.url, request, half_close=True), 400, "incomplete-body")
    unchanged(api, server, there)


def test_half_closed_after_a_whole_request_is_answered(api: Api, server: ServerProcess) -> None:
    request = put(api, "there", {"Content-Length": "5"}) if api.added("there") else b""
    response = raw.ask(server.url, request + b"whole", half_close=True)
    assert response.status_code == 200, response.text
    assert api.state("there").content == b"whole"
    ready = raw.ask(server.url, raw.head("GET", "/readyz?verbose"), half_close=True)
    assert ready.status_code == 200


def test_a_refusal_that_needs_no_body_does_not_wait_for_it(api: Api, server: ServerProcess) -> None:
    headers = {"Content-Length": "1000000000", "Expect": "100-continue"}
    with raw.connected(server.url) as connection:
        connection.sendall(raw.head("POST", f"/v1/stores/{api.store}/handles/a", headers))
        problem(raw.answer(connection), 400, "session-required")


def test_continue_is_said_where_the_body_is_wanted(api: Api, server: ServerProcess) -> None:
    with raw.connected(server.url) as connection:
        api.added("there")
        connection.sendall(put(api, "there", {"Content-Length": "5", "Expect": "100-continue"}))
        assert connection.recv(1024).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"whole")
        assert raw.answer(connection, "PUT").status_code == 200


NO_REQUESTS = {
    "no HTTP": b"nonsense\r\n\r\n",
    "blank in the path": raw.head("GET", "/v1/stores/a b/handles"),
    "NUL in the path": raw.head("GET", b"/v1/stores/a\x00b/handles"),
    "emoji for a method": "\N{GRINNING FACE} / HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
    "no path": raw.head("GET", "http://localhost"),
    "length no number": raw.head("POST", "/v1/stores/s/handles/a", {"Content-Length": "ten"}),
    "length negative": raw.head("POST", "/v1/stores/s/handles/a", {"Content-Length": "-1"}),
    "length beyond all": raw.head("POST", "/v1/stores/s/handles/a", {"Content-Length": "9" * 30}),
    "two ends": raw.head("POST", "/v1/stores/s/handles/a", {"Content-Length": "1", "Transfer-Encoding": "chunked"}),
    "control character": raw.head("GET", "/v1/stores", {"X-Request-Id": "a\x01b"}),
    "no host": b"GET /v1/stores HTTP/1.1\r\n\r\n",
    "two hosts": raw.head("GET", "/v1/stores", {"Host": "localhost\r\nHost: 127.0.0.1"}),
    "another HTTP": b"GET /v1/stores HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "a proxy's request": b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "two lengths": raw.head("POST", "/v1/stores/s/handles/a", {"Content-Length": "1\r\nContent-Length: 1"}),
    "list of lengths": raw.head("POST", "/v1/stores/s/handles/a", {"Content-Length": "1, 1"}),
    "length with a sign": raw.head("POST", "/v1/stores/s/handles/a", {"Content-Length": "+1"}),
    "blank before a colon": raw.head("POST", "/v1/stores/s/handles/a", {"Content-Length ": "1"}),
    "compacted field": raw.head("POST", "/v1/stores/s/handles/a", {"X-Compacted": "a\r\n b"}),
    "line feeds alone": b"GET /v1/stores HTTP/1.1\nHost: localhost\n\n",
    "chunked twice": raw.head("POST", "/v1/stores/s/handles/a", {"Transfer-Encoding": "chunked, chunked"}),
    "chunked in two fields": raw.head(
        "POST", "/v1/stores/s/handles/a", {"Transfer-Encoding": "chunked\r\nTransfer-Encoding: chunked"}
    ),
    "chunked is not the last": raw.head("POST", "/v1/stores/s/handles/a", {"Transfer-Encoding": "chunked, gzip"}),
    "chunked in HTTP/1.0": b"POST /v1/stores/s/handles/a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}
CODINGS = ["gzip, chunked", "gzip", "identity", "xchunked", "gzip\r\nTransfer-Encoding: chunked"]


@pytest.mark.parametrize("request_bytes", NO_REQUESTS.values(), ids=NO_REQUESTS)
def test_what_is_no_request_gets_a_problem_all_the_same(
    api: Api, server: ServerProcess, there: tuple[Json, set[str]], request_bytes: bytes
) -> None:
    response = raw.ask(server.url, request_bytes)
    assert problem(response, 422, "invalid-request")["retryable"] is False
    assert response.headers["connection"] == "close"
    names_the_term_and_is_logged(response, server, api)
    unchanged(api, server, there)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_coding_that_is_not_understood_is_no_state(
    api: Api, server: ServerProcess, there: tuple[Json, set[str]], coding: str
) -> None:
    request = put(api, "new", {"Transfer-Encoding": coding}) + b"3\r\nabc\r\n0\r\n\r\n"
    response = raw.ask(server.url, request)
    problem(response, 501, "not-supported")
    assert response.headers["connection"] == "close"
    unchanged(api, server, there)


def names_the_term_and_is_logged(response: httpx.Response, server: ServerProcess, api: Api) -> None:
    """Also down where no application is asked."""
    assert response.headers["milepost-term"] == api.current().headers["milepost-term"]
    server.wait_for_log(response.headers["x-request-id"])
    (line,) = [line for line in server.logged().splitlines() if response.headers["x-request-id"] in line]
    assert f" {response.status_code} " in line


HEADS = {
    "path": b"GET /v1/stores/a",
    "header": b"GET /v1/stores HTTP/1.1\r\nX-Long: ",
    "headers": b"GET / HTTP/1.1\r\n",
}


@pytest.mark.parametrize("begin", HEADS.values(), ids=HEADS)
def test_a_head_that_does_not_end_is_too_large(api: Api, server: ServerProcess, begin: bytes) -> None:
    filling = b"x" * 80_000 if b"\n" not in begin or begin.endswith(b" ") else b"X-More: x\r\n" * 8_000
    with raw.connected(server.url) as connection:
        connection.sendall(begin)
        while not select.select([connection], [], [], 0.1)[0]:
            connection.sendall(filling)
        response = raw.answer(connection)
    assert "65536" in problem(response, 413, "too-large")["detail"]
    names_the_term_and_is_logged(response, server, api)


@pytest.mark.parametrize(
    "target", ["/v1/stores/" + "a" * 65_600, "/v1/stores/" + "a" * 100_000, "/v1/stores?token=" + "a" * 300_000]
)
def test_a_head_that_is_too_large_as_a_whole(server: ServerProcess, target: str) -> None:
    problem(raw.ask(server.url, raw.head("GET", target)), 413, "too-large")


def test_more_than_the_last_request_costs_nobody_its_answer(server: ServerProcess) -> None:
    """A system that closes a connection with unread bytes in it resets it, and the answer may be lost on its way."""
    for _ in range(5):
        with raw.connected(server.url) as connection:
            connection.sendall(raw.head("GET", "/livez", {"Connection": "close"}) + b"x" * 1_000_000)
            assert raw.answer(connection).status_code == 200
            assert connection.recv(1) == b""


def test_a_head_as_large_as_labels_can_make_it(api: Api) -> None:
    labels = {f"Milepost-Label-{'k' * 60}{number:04}": "v" * 256 for number in range(32)}
    assert len(api.with_headers(labels).added("a")["labels"]) == 32


CHUNKS = {
    "blank behind the size": b"5 \r\nhello\r\n0\r\n\r\n",
    "prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "negative": b"-5\r\nhello\r\n0\r\n\r\n",
    "beyond all": b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "no end of the bytes": b"5\r\nhelloX0\r\n\r\n",
    "line feeds alone": b"5\nhello\n0\n\n",
    "line feed in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "line feed in a trailer": b"5\r\nhello\r\n0\r\nA: b\n\r\n",
}


@pytest.mark.parametrize("body", CHUNKS.values(), ids=CHUNKS)
def test_chunks_that_two_readers_could_read_in_two_ways(
    api: Api, server: ServerProcess, there: tuple[Json, set[str]], body: bytes
) -> None:
    problem(raw.ask(server.url, put(api, "new", {"Transfer-Encoding": "chunked"}) + body), 422, "invalid-request")
    unchanged(api, server, there)


def test_a_chunk_that_is_none(api: Api, server: ServerProcess, there: tuple[Json, set[str]]) -> None:
    mark = f"no-chunk-{api.store}"
    request = put(api, "new", {"Transfer-Encoding": "chunked", "X-Request-Id": mark}) + b"5\r\nhello\r\nzz\r\n"
    response = raw.ask(server.url, request)
    problem(response, 422, "invalid-request")
    assert response.headers["x-request-id"] == mark
    server.wait_for_log(f" 422 0.0 ms {mark}")
    unchanged(api, server, there)


@pytest.mark.parametrize(
    "rest",
    [
        b" world\r\n\r\n",
        raw.head("POST", "/v1/stores/s/handles/b", {"Transfer-Encoding": "chunked"}) + b"zz\r\n",
        raw.head("GET", "/livez") + b"nonsense\r\n\r\n",
    ],
    ids=["garbage", "a request with a broken body", "a request, then garbage"],
)
def test_what_follows_a_whole_request_does_not_take_the_place_of_its_answer(
    api: Api, server: ServerProcess, rest: bytes
) -> None:
    api.added("there")
    with raw.connected(server.url) as connection:
        connection.sendall(put(api, "there", {"Content-Length": "5"}) + b"hello" + rest)
        answers = b""
        while received := connection.recv(65536):
            answers += received
    assert answers.startswith(b"HTTP/1.1 200 ")
    assert answers.count(b"HTTP/1.1 ") == (2 if b"livez" in rest else 1)
    assert api.state("there").content == b"hello"


def test_the_id_of_an_earlier_request_is_not_that_of_a_later_one_that_is_none(server: ServerProcess) -> None:
    with raw.connected(server.url) as connection:
        connection.sendall(raw.head("GET", "/livez", {"X-Request-Id": "earlier"}))
        assert raw.answer(connection).headers["x-request-id"] == "earlier"
        connection.sendall(b"nonsense\r\n\r\n")
        response = raw.answer(connection)
    problem(response, 422, "invalid-request")
    assert response.headers["x-request-id"] != "earlier"


def test_a_connection_is_used_again_after_refusals(api: Api, server: ServerProcess) -> None:
    """The rest of a body that nobody read must not be taken for the next request."""
    api.added("there")
    with raw.connected(server.url) as connection:
        for _ in range(2):
            connection.sendall(put(api, "new", {"Content-Length": "100000", "If-Match": "", "Milepost-Epoch": "-"}))
            connection.sendall(b"GET /v1/status HTTP/1.1\r\n\r\n".ljust(100_000, b"x"))
            problem(raw.answer(connection), 422, "invalid-request")
        connection.sendall(raw.head("GET", f"/v1/stores/{api.store}/handles"))
        assert [record["name"] for record in raw.answer(connection).json()["handles"]] == ["there"]


def test_slow_bodies_are_waited_for(api: Api, server: ServerProcess) -> None:
    api.added("there")
    with raw.connected(server.url) as connection:
        connection.sendall(put(api, "there", {"Content-Length": "5"}))
        for byte in b"slow!":
            time.sleep(0.05)
            connection.sendall(bytes([byte]))
        connection.settimeout(DEADLINE_SECONDS)
        assert raw.answer(connection, "PUT").status_code == 200
    assert api.state("there").content == b"slow!"
