"""Targets with letters outside ASCII as they are, which Hadoop's client sends, and refusals by HTTP's own layer."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from testbed.server import ServerProcess
from tests.wire.support import raw
from tests.wire.support.api import Api, problem
from tests.wire.support.in_process import in_process
from tests.wire.webhdfs.hadoop import Tree, refused

NAMES = ("Zürich", "größe=1", "日本", "😀", "e\u0301", "\xa0", "ÿ", "ä" * 255)
DISGUISED = "GET /webhdfs/v1/jobs/ä?op=LISTSTATUS HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
BODIES = {
    "binary": bytes(range(256)) * 300,
    "lines of requests": DISGUISED * 300,
    "empty lines": b"\r\n" * 20_000 + "ä".encode(),
    "letters": "é".encode() * 10_000,
}


@pytest.fixture
def tree(api: Api) -> Tree:
    """The tree of a job that this test leads."""
    return Tree(api.http, api.store, api.campaign().json()["epoch"])


def request(tree: Tree, method: str, path: bytes, op: str, headers: dict[str, str] | None = None) -> bytes:
    target = b"/webhdfs/v1/jobs/" + tree.job.encode() + b"/" + path + b"?op=" + op.encode()
    return raw.head(method, target, {**tree.told(), **(headers or {})})


def talked(url: str, pieces: Sequence[bytes], *methods: str) -> list[httpx.Response]:
    with raw.connected(url) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return list(raw.answers(connection, *methods))


@pytest.mark.parametrize("apart", [0, 1, 7], ids=["in one piece", "byte for byte", "in pieces"])
def test_names_are_the_same_raw_and_encoded(tree: Tree, by_default: ServerProcess, apart: int) -> None:
    sent = b"".join(request(tree, "PUT", name.encode(), "MKDIRS") for name in NAMES)
    size = apart or len(sent)
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    for answer in talked(by_default.url, pieces, *["PUT"] * len(NAMES)):
        assert answer.json() == {"boolean": True}, answer.text
    assert tree.names() == sorted(NAMES)


def test_raw_letters_are_the_same_in_all_paths(tree: Tree, by_default: ServerProcess) -> None:
    tree.create("%C3%BC", b"v1")
    got = raw.ask(by_default.url, raw.head("GET", f"/v1/stores/{tree.job}/files/ü".encode()))
    assert (got.status_code, got.content) == (200, b"v1")
    problem(raw.ask(by_default.url, raw.head("GET", "/v1/stores/😀/handles".encode())), 422, "invalid-name")
    problem(raw.ask(by_default.url, raw.head("GET", b"/v1/stores/s/files/\xfc")), 422, "invalid-name")


def test_a_redirect_leads_to_the_encoded_name(tree: Tree, by_default: ServerProcess) -> None:
    first = raw.ask(by_default.url, request(tree, "PUT", "Zürich/é".encode(), "CREATE"))
    assert "/Z%C3%BCrich/%C3%A9?" in first.headers["location"]
    assert tree.send(first.headers["location"], b"v1").status_code == 201
    opened = raw.ask(by_default.url, request(tree, "GET", "Zürich/é".encode(), "OPEN"))
    assert tree.http.get(opened.headers["location"]).content == b"v1"
    moved = f"RENAME&renameoptions=NONE&destination=/jobs/{tree.job}/日本"
    answer = raw.ask(
        by_default.url, request(tree, "PUT", "Zürich/é".encode(), "").replace(b"?op=", b"?op=" + moved.encode())
    )
    assert answer.status_code == 200, answer.text
    assert tree.names() == ["Zürich", "日本"]


@pytest.mark.parametrize("framing", ["length", "chunks", "upgrade"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_raw_target_behind_any_body(tree: Tree, by_default: ServerProcess, body: bytes, framing: str) -> None:
    """Not a byte of the body is taken for a request line, and the line behind it is."""
    put = httpx.URL(tree.ask("PUT", "file", "CREATE").headers["location"]).raw_path
    headers = {"Content-Length": str(len(body))}
    sent = body
    if framing == "chunks":
        headers = {"Transfer-Encoding": "chunked"}
        parts = [body[at : at + 5000] for at in range(0, len(body), 5000)]
        sent = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    elif framing == "upgrade":
        headers |= {"Upgrade": "h2c", "Connection": "Upgrade"}
    whole = raw.head("PUT", put, {**tree.told(), **headers}) + sent
    whole += request(tree, "GET", b"file", "GETFILESTATUS") + request(tree, "PUT", "ü".encode(), "MKDIRS")
    for size in (len(whole), 9973):
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        created, status, made = talked(by_default.url, pieces, "PUT", "GET", "PUT")
        assert (created.status_code, status.json()["FileStatus"]["length"]) == (201, len(body)), created.text
        assert made.json() == {"boolean": True}
    assert tree.read("file").content == body
    assert tree.names() == ["file", "ü"]


@pytest.mark.parametrize("wrong", [b"\xfc", b"Z\xfcrich", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xff/x"])
def test_bad_utf_8_is_refused_before_any_data(tree: Tree, by_default: ServerProcess, wrong: bytes) -> None:
    waiting = {"Content-Length": "5", "Expect": "100-continue"}
    for op in ("CREATE", "CREATE&token=x", "MKDIRS"):
        answer = raw.ask(by_default.url, request(tree, "PUT", wrong, op, waiting))
        assert "UTF-8" in refused(answer, 400, "IllegalArgumentException")
    target = (
        b"/webhdfs/v1/jobs/" + tree.job.encode() + b"/a?op=RENAME&destination=/jobs/" + tree.job.encode() + b"/" + wrong
    )
    refused(raw.ask(by_default.url, raw.head("PUT", target, tree.told())), 400, "IllegalArgumentException")
    assert tree.names() == []


@pytest.mark.parametrize("path", ["Z?rich", "??", "?", "a/??/b"])
def test_letters_that_java_could_not_send_are_refused_by_what_helps(
    tree: Tree, by_default: ServerProcess, path: str
) -> None:
    """With ``LC_ALL=C``, Java 17 sends a question mark for each."""
    for method, op in (("PUT", "MKDIRS"), ("GET", "GETFILESTATUS"), ("DELETE", "DELETE"), ("PUT", "CREATE")):
        answer = raw.ask(by_default.url, request(tree, method, path.encode(), op))
        assert "-Dfile.encoding=UTF-8" in refused(answer, 403, "IOException")
    assert tree.names() == []


REFUSED = {
    "no HTTP": b"GET /webhdfs/v1/a b?op=OPEN HTTP/1.1\r\n\r\n",
    "a control character": b"GET /webhdfs/v1/a\x01?op=OPEN HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an unknown method": b"BREW /webhdfs/v1/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no host": b"GET /webhdfs/v1/a?op=OPEN HTTP/1.1\r\n\r\n",
    "another version": b"GET /webhdfs/v1/a?op=OPEN HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "another host": b"GET http://other/webhdfs/v1/a?op=OPEN HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long target": b"GET /webhdfs/v1/" + "ä".encode() * 12_000 + b"?op=OPEN HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long head": b"GET /webhdfs/v1/a?op=OPEN HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000,
    "an unknown coding": b"PUT /webhdfs/v1/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    "two lengths": b"PUT /webhdfs/v1/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "no path": b"GET /webhdfs HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "a strange host": b"GET /webhdfs/v1/a?op=OPEN HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "a method of others": b"PATCH /webhdfs/v1/jobs/a?op=OPEN HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a path of others": b"GET /webhdfs/v2/jobs/a?op=OPEN HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
def test_each_refusal_is_an_exception_of_java(by_default: ServerProcess, sent: bytes) -> None:
    answer = raw.ask(by_default.url, sent)
    exception = answer.json()["RemoteException"]
    refused(answer, answer.status_code, exception["exception"])
    assert answer.status_code in (400, 403, 404)
    assert exception["message"]
    elsewhere = raw.ask(by_default.url, sent.replace(b"/webhdfs", b"/v1/webhdfs"))
    assert elsewhere.headers["content-type"] == "application/problem+json", elsewhere.text


def test_a_body_that_is_no_body(tree: Tree, by_default: ServerProcess) -> None:
    """The refusal comes inside of a request whose head was served."""
    put = httpx.URL(tree.ask("PUT", "file", "CREATE").headers["location"]).raw_path
    head = raw.head("PUT", put, {**tree.told(), "Transfer-Encoding": "chunked"})
    refused(raw.ask(by_default.url, head + b"no chunk\r\n"), 400, "IllegalArgumentException")
    refused(raw.ask(by_default.url, head + b"5\r\nab", half_close=True), 403, "IOException")
    assert tree.names() == []


def test_a_request_without_tls(tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with in_process(tmp_path, tls=tls) as running:
        url = str(running.http.base_url).replace("https:", "http:")
        for target in ("/webhdfs/v1/a?op=OPEN", "/webhdfs/v1/ä?op=OPEN"):
            answer = raw.ask(url, raw.head("GET", target.encode()))
            assert "TLS" in refused(answer, 400, "IllegalArgumentException")
        problem(raw.ask(url, raw.head("GET", "/v1/status")), 422, "invalid-request")
